"""What the tour of all commands, buttons and forms needs: members who note what they use, and what is left.

Buttons are pressed by their class, not by their label, so that members of every language press the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from discord import app_commands
from results import shows_result

from bot.front.commands import paint_from
from bot.front.features import BUTTONS, FORMS
from bot.sandbox.client import Member
from bot.sandbox.component_rules import walk

Message = dict[str, Any]
PATIENCE = 120.0  # seconds; a busy machine may still compile what is to paint
MAX_TEXT, MAX_PARTS = 4000, 40  # of a message, by Discord's rules
SCRIPTS = {"ko": "HANGUL", "zh": "CJK", "ar": "ARABIC"}
KINDS = ("way", "choice")
"""The groups of a template that name a kind of press; all others name what it acts on."""


@dataclass(kw_only=True)
class Used:
    """What was used, by names as `unused` gives them, and what the messages offered."""

    things: set[str] = field(default_factory=set)
    offered: set[str] = field(default_factory=set)


class Guest:
    """A member who notes every command, suggestion, button, choice and form that they use."""

    def __init__(self, member: Member, used: Used, *, language: str) -> None:
        self.member = member
        self.language = language
        self._used = used

    async def use(self, command: str, *, channel: str | None = None, **options: Any) -> str:
        """Use a slash command; return the interaction's id."""
        self._used.things |= {
            f"/{command}",
            *(f"/{command} {option.removesuffix('_')}" for option in options),
        }
        return await self.member.use(command, channel=channel, **options)

    async def suggested(self, command: str, option: str, typed: str = "", **options: Any) -> list[str]:
        """Return the values that are suggested for an option."""
        self._used.things.add(suggestions_of(command, option))
        choices = await self.member.autocomplete(command, option, typed, **options)
        return [str(choice["value"]) for choice in choices]

    async def menu(self, message: Message, name: str) -> str:
        """Choose a command from the menu of a message; return the interaction's id."""
        self._used.things.add(menu_of(name))
        return await self.member.menu(message, name)

    async def press(self, message: Message, item: str, *, kind: str = "", index: int = 0) -> str:
        """Press the first button of this word and kind, or that of a tile; return the interaction's id."""
        mine = [each for each in custom_ids(message) if matches(item, each)]
        found = [each for each in mine if name_of(each).endswith(kind)]
        assert found, f"{self.member.name} finds no {item} {kind} in {text_of(message)}"
        self._used.things.add(name_of(found[index]))
        return await self.member.press(message, found[index])

    async def choose(self, message: Message, item: str, *wanted: str) -> str:
        """Choose from the first such menu, by labels or beginnings of values; return the interaction's id."""
        menu = next(part for part in parts_of(message) if is_menu(part) and matches(item, part["custom_id"]))
        options = {option["value"]: option["label"] for option in menu["options"]}
        chosen = [
            next(value for value, label in options.items() if label == each or value.startswith(each))
            for each in wanted
        ]
        self._used.things.add(name_of(menu["custom_id"]))
        if item == "more":
            self._used.things |= set(map(choice_of, chosen))
        return await self.member.press(message, menu["custom_id"], values=chosen)

    async def fill(self, interaction: str, **values: Any) -> str:
        """Fill in the form that an interaction opened, and submit it; return the new interaction's id."""
        form = await self.member.modal_of(interaction, timeout=PATIENCE)
        self._used.things |= {form_of(template) for template in templates_of(form["custom_id"])}
        return await self.member.submit(form, **values)

    async def answer(
        self, interaction: str, *, has: Callable[[Message], bool] | None = None, channel: str | None = None
    ) -> Message:
        """Return the answer to an interaction, once it says something, or as `has` wants it."""
        return await self.member.message_of(
            interaction, has or (lambda seen: bool(text_of(seen))), channel=channel, timeout=PATIENCE
        )

    async def result(self, interaction: str, *, channel: str | None = None) -> Message:
        """Return the answer to an interaction once it has its pictures."""
        return await self.answer(interaction, has=shows_result, channel=channel)

    async def results(self, interaction: str, count: int) -> list[Message]:
        """Return so many results that one interaction asked for."""

        def shown(messages: list[Message]) -> list[Message] | None:
            mine = [each for each in messages if of(each, interaction) and shows_result(each)]
            return mine if len(mine) == count else None

        return await self.member.wait_for(shown, timeout=PATIENCE)

    async def sees(self, message: Message, has: Callable[[str], bool]) -> Message:
        """Return a message once it says what is wanted."""
        return await self.member.wait_for_message(
            lambda seen: seen["id"] == message["id"] and has(text_of(seen)), timeout=PATIENCE
        )

    async def misses(self, message: Message) -> None:
        """Return once the member sees the message no more."""
        await self.member.wait_for(
            lambda messages: all(each["id"] != message["id"] for each in messages), timeout=PATIENCE
        )

    def seen(self) -> Iterator[Message]:
        """Yield every message that the member saw, in every state."""
        for event in self.member.events:
            if event["type"] in {"MESSAGE_CREATE", "MESSAGE_UPDATE"}:
                yield event["data"]

    def labels(self) -> set[str]:
        """What is written on the buttons, menus and forms that answer the member."""
        forms = [event["data"] for event in self.member.events if event["type"] == "MODAL"]
        answers = [message for message in self.seen() if is_answer_to(message, self.member.name)]
        parts = [part for shown in (*answers, *forms) for part in parts_of(shown)]
        found = {str(part.get("label") or part.get("placeholder") or "") for part in parts}
        return (found | {form["title"] for form in forms}) - {""}

    def foreign_labels(self) -> set[str]:
        """The labels that are not in the member's language."""
        return {label for label in self.labels() if not is_in(self.language, label)}


def custom_ids(message: Message) -> list[str]:
    """The ids of the buttons and menus of a message, in reading order."""
    return [part["custom_id"] for part in parts_of(message) if part.get("custom_id")]


def parts_of(message: Message) -> list[dict[str, Any]]:
    return [part for _, part in walk(message["components"])]


def text_of(message: Message) -> str:
    """All that a message says."""
    return "\n".join([message["content"], *(part.get("content", "") for part in parts_of(message))]).strip()


def of(message: Message, interaction: str) -> bool:
    """Whether a message answers an interaction."""
    return bool((message.get("interaction_metadata") or {}).get("id") == interaction)


def is_answer_to(message: Message, name: str) -> bool:
    """Whether a message answers something that this member did."""
    user = (message.get("interaction_metadata") or {}).get("user") or {}
    return bool(user.get("username") == name)


def is_in(language: str, label: str) -> bool:
    """Whether a label has a letter of the language's script; tiles have the same labels in all languages."""
    if language not in SCRIPTS or re.fullmatch(r"[UV][1-9]", label):
        return True
    return any(unicodedata.name(letter, "").startswith(SCRIPTS[language]) for letter in label)


def is_menu(part: dict[str, Any]) -> bool:
    return "options" in part


def matches(item: str, custom_id: str) -> bool:
    """Whether the id of a button or menu begins with this word."""
    return custom_id == item or custom_id.startswith(f"{item}:")


def name_of(custom_id: str) -> str:
    """What a button or menu does, and what kind of press it is."""
    for item in BUTTONS:
        if match := re.fullmatch(item.template, custom_id):
            groups = match.groupdict()
            kinds = [groups[kind] for kind in KINDS if kind in groups]
            return " ".join([item.act.__name__, *(kinds or ([] if groups else [custom_id]))])
    raise AssertionError(f"no button or menu has the id {custom_id}")


def choice_of(value: str) -> str:
    """The action of a choice of More; the choices of other menus name jobs."""
    return f"choice {value.partition(':')[0]}"


def suggestions_of(command: str, option: str) -> str:
    return f"suggestions of /{command} {option}"


def menu_of(name: str) -> str:
    return f"menu {name}"


def templates_of(custom_id: str) -> list[str]:
    return [form.template for form in FORMS if re.fullmatch(form.template, custom_id)]


def form_of(template: str) -> str:
    return f"form {template}"


OF_MODELS = {
    paint_from.COMPOSITION_FORM: paint_from.COMPOSITION,
    paint_from.LIKE_FORM: paint_from.LIKE,
    paint_from.CHANGE_FORM: paint_from.CHANGE,
}
"""The forms of menus that are there while some model can paint so."""


def everything(commands: Iterable[Any], offered: set[str]) -> set[str]:
    """The names of all commands with options and suggestions, all buttons, menus, choices and forms."""
    shown = {each.partition(" ")[0] for each in offered}
    buttons = {item.act.__name__ for item in BUTTONS if item.act.__name__ not in shown}
    named = {name for command in commands for name in of_command(command)}
    away = {form for form, menu in OF_MODELS.items() if menu_of(menu) not in named}
    forms = {form_of(form.template) for form in FORMS if form.template.partition(":")[0] not in away}
    return offered | buttons | forms | named


def of_command(command: Any) -> Iterator[str]:
    """Yield the names of a command, its options and what suggests values for them."""
    if isinstance(command, app_commands.Group):
        for each in command.commands:
            yield from of_command(each)
    elif isinstance(command, app_commands.ContextMenu):
        yield menu_of(command.name)
    else:
        yield f"/{command.qualified_name}"
        for option in command.parameters:
            yield f"/{command.qualified_name} {option.name}"
            if option.autocomplete:
                yield suggestions_of(command.qualified_name, option.name)


def offered_in(message: Message) -> Iterator[str]:
    """Yield the kinds of presses and choices that a message offers."""
    for part in parts_of(message):
        if part.get("custom_id"):
            yield name_of(part["custom_id"])
        if is_menu(part) and matches("more", part["custom_id"]):
            yield from (choice_of(option["value"]) for option in part["options"])


def unused(used: Used, commands: Iterable[Any]) -> list[str]:
    """The names of all that exists and that nobody used."""
    return sorted(everything(commands, used.offered) - used.things)


def is_within_limits(message: Message) -> bool:
    """Whether a message is as long, and has as many parts, as Discord takes."""
    return len(text_of(message)) <= MAX_TEXT and len(parts_of(message)) <= MAX_PARTS
