"""Commands whose options are known only when the configuration is read."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from discord import app_commands
from discord.app_commands import locale_str

from bot.front.parts import Interaction

Command = app_commands.Command[Any, ..., None]
Autocomplete = Callable[[Interaction, str], Coroutine[Any, Any, list[app_commands.Choice[str]]]]


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a command; `kind` is a type as discord.py reads it, such as `Range[int, 1, 9]`."""

    name: str
    description: locale_str
    kind: Any
    required: bool = False
    choices: Sequence[tuple[str, str]] = ()
    autocomplete: Autocomplete | None = None


def make_command(
    *, name: str, description: locale_str, run: Callable[..., Awaitable[None]], options: Sequence[Option] = ()
) -> Command:
    """A command that calls `run(interaction, **given)` with the options that the person filled in."""

    async def callback(interaction: Interaction, **values: Any) -> None:
        await run(interaction, **{key: value for key, value in values.items() if value is not None})

    callback.__signature__ = _signature(options)  # type: ignore[attr-defined]
    if options:
        app_commands.describe(**{option.name: option.description for option in options})(callback)
    for option in options:
        if option.choices:
            found = [app_commands.Choice(name=shown, value=value) for shown, value in option.choices]
            app_commands.choices(**{option.name: found})(callback)
        if option.autocomplete:
            app_commands.autocomplete(**{option.name: option.autocomplete})(callback)
    return app_commands.Command(name=name, description=description, callback=callback)


def _signature(options: Sequence[Option]) -> inspect.Signature:
    """What discord.py reads the options from."""
    interaction = inspect.Parameter("interaction", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature(
        [interaction]
        + [
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=option.kind if option.required else option.kind | None,
                default=inspect.Parameter.empty if option.required else None,
            )
            for option in options
        ]
    )
