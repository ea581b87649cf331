"""What holds: the policies of a server and why, and the configuration and where its values come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from bot.config import Config
from bot.config.environment import BETWEEN, FILE, PREFIX
from bot.config.mistakes import MAY_BE_SECRET
from bot.moderation.policy import KEYS, Effective, Said, effective, said_by, values_of
from bot.page.audit import text_of, whole_text_of
from bot.page.guard import number_of
from bot.page.house import House, Setting
from bot.store.moderation.policies import PolicyScope
from bot.telemetry.redaction import HIDDEN, redact

ENVIRONMENT, GIVEN, DEFAULT = "environment", "file", "default"


async def read_policies(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the policies of a server with what holds for each owner, and the rules that make it so."""
    guild_id = number_of(query.get("server", ""))
    rows = [] if guild_id is None else await house.store.policies.all_of(guild_id)
    said = [said_by(row) for row in rows]
    whole = [each for each in said if each.scope is PolicyScope.SERVER]
    server = whole[0] if whole else Said(scope=PolicyScope.SERVER, id=guild_id or 0, policy=EMPTY)
    owners = [(server, effective([server, *house.operator_says]))]
    for own in said:
        if own.scope is not PolicyScope.SERVER:
            owners.append((own, effective([own, *whole, *house.operator_says])))
    tables = [(own, list(_lines(own, decided))) for own, decided in owners] if guild_id is not None else []
    return {"tables": tables, "query": query}


EMPTY = effective([]).policy


def _lines(own: Said, decided: Effective) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield each key with what its owner says, what holds, and whose rules make it so.

    A channel or a role has the keys that it says itself; the others are the server's.
    """
    says, holds = values_of(own.policy), values_of(decided.policy)
    for key in KEYS:
        if key in says or (own.scope is PolicyScope.SERVER and key in holds):
            why = list(dict.fromkeys(rule.scope.value for rule in decided.rules.get(key, ())))
            yield key, text_of(says.get(key)), text_of(holds.get(key)), why


async def read_configuration(house: House, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return every setting of this process."""
    return {"settings": house.settings}


def settings_of(config: Config, environ: Mapping[str, str]) -> list[Setting]:
    """Return every key of a configuration, its value, and where it comes from; secrets are hidden."""
    return list(_settings(config, (), frozenset(environ)))


def _settings(model: BaseModel, place: tuple[str, ...], names: frozenset[str]) -> Iterator[Setting]:
    for key in type(model).model_fields:
        value, here = getattr(model, key), (*place, key)
        if isinstance(value, BaseModel):
            yield from _settings(value, here, names)
        elif isinstance(value, Sequence) and value and all(isinstance(each, BaseModel) for each in value):
            for number, each in enumerate(value):
                yield from _settings(each, (*here, str(number)), names)
        elif isinstance(value, Mapping) and value and all(isinstance(e, BaseModel) for e in value.values()):
            for name, each in value.items():
                yield from _settings(each, (*here, name), names)
        else:
            given = GIVEN if key in model.model_fields_set else DEFAULT
            shown = text_of(redact(whole_text_of(value)))  # half a secret would not be recognized
            yield Setting(
                key=".".join(here),
                value=HIDDEN if key in MAY_BE_SECRET and value else shown,
                source=ENVIRONMENT if _is_variable(here, names) else given,
            )


def _is_variable(place: tuple[str, ...], names: frozenset[str]) -> bool:
    """Return whether a variable sets this key, or a table that it is in."""
    parts = [part.upper() for part in place]
    tables = [PREFIX + BETWEEN.join(parts[:end]) for end in range(1, len(parts) + 1)]
    return any(name in names or name + FILE in names for name in tables)
