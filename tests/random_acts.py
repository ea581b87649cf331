"""Members who do anything that Discord's client lets them do, and forged presses and forms, at random.

Commands, suggestions, buttons, menus, forms, files, reactions and deletions are drawn from what each member
sees. A forged press has an id of the bot's own shape, with the id of any row that was seen anywhere.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from bot.front.features import BUTTONS, FORMS
from bot.sandbox.client import InteractionFailed, Member, RefusedByClient
from bot.sandbox.command_rules import (
    ATTACHMENT,
    BOOLEAN,
    CHANNEL,
    INTEGER,
    MENTIONABLE,
    NUMBER,
    ROLE,
    STRING,
    SUBCOMMAND,
    SUBCOMMAND_GROUP,
    USER,
)
from bot.sandbox.community import CHANNELS, MODERATORS_ID, PEOPLE
from bot.sandbox.component_rules import STRING_SELECT, walk
from bot.sandbox.modal_rules import inputs, submission
from bot.sandbox.server import Sandbox

Json = dict[str, Any]
NEWEST = 25  # messages of a channel, among which a member chooses one
TEXT_INPUT = 4
TEXTS = (
    *(
        "a boat",
        "a red circle",
        "빨간 배",
        "قارب أحمر",
        "红色的船",
        "x",
        "0",
        "-1",
        "9" * 30,
        "Ink",
        "colour",
    ),
    *("{red,blue} __colour__ boat", "{a,b,c,d} {1..9}", "__nowhere__", "<lora:any:1> boat", "boat --ar 1:1"),
    *("steps 4\nseed 7", "steps 9999", "model inker", "negative fog", "nude child", "@everyone <@1> `x`"),
    *(
        "\N{GRINNING FACE}" * 900,
        "z" + "\u0301" * 300,
        "\N{RIGHT-TO-LEFT OVERRIDE}txet",
        "\x00\x1b[31m",
        "(((",
    ),
    *(
        "word " * 390,
        "\ufdfd" * 40,
        "'; DROP TABLE jobs; --",
        "%s {0} {prompt}",
        "all",
        "here",
        "server",
        "none",
    ),
)
IDS = re.compile(r"\b[0-9a-z]{8}\b|\b\d{1,20}\b")


@dataclass(kw_only=True)
class Acts:
    """What any member has seen: buttons and menus, forms, and the ids in them."""

    shapes: dict[str, int] = field(default_factory=dict)
    forms: list[Json] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def see_form(self, form: Json) -> None:
        """Note a form, so that others are forged from it."""
        self.forms.append(form)
        self.ids |= set(IDS.findall(form["custom_id"]))

    def see_message(self, message: Json) -> None:
        """Note a message's buttons, menus and values, so that others are forged from them."""
        for _, part in walk(message.get("components") or []):
            if part.get("custom_id"):
                self.shapes[part["custom_id"]] = int(message["id"])
                said = [part["custom_id"], *(str(option["value"]) for option in part.get("options") or [])]
                self.ids |= set(IDS.findall(" ".join(said)))


class RandomMember:
    """Acts at random. `files` are sent as attachments."""

    def __init__(
        self, sandbox: Sandbox, member: Member, acts: Acts, chance: random.Random, files: Sequence[bytes]
    ) -> None:
        self._sandbox, self._member, self._acts, self._chance = sandbox, member, acts, chance
        self._files = files
        self._read = 0
        self._forms: list[Json] = []
        self._commands: list[Json] = []
        self._kinds = {
            self._command: 30,
            self._imagine: 18,
            self._press: 30,
            self._submit: 16,
            self._suggestions: 5,
            self._menu: 6,
            self._forge: 10,
            self._say: 3,
            self._react: 1,
            self._delete: 1,
        }

    async def act(self) -> None:
        """Do one thing."""
        self._hear()
        [kind] = self._chance.choices(list(self._kinds), weights=list(self._kinds.values()))
        with contextlib.suppress(RefusedByClient, InteractionFailed):
            await kind()

    def _hear(self) -> None:
        events = self._member.events[self._read :]
        self._read += len(events)
        for event in events:
            data = event["data"]
            if event["type"] == "MODAL":
                self._acts.see_form(data)
                self._forms.append(data)
            elif event["type"] in ("MESSAGE_CREATE", "MESSAGE_UPDATE"):
                self._acts.see_message(data)

    async def _channel(self) -> str:
        return self._chance.choice(["art"] * 6 + ["general", "nsfw-art", "dm"])

    async def _command(self) -> None:
        if not self._commands:
            self._commands = (await self._member.state())["commands"]
        slash = [command for command in self._commands if command["type"] == 1]
        name, options = self._chance.choice([leaf for command in slash for leaf in leaves(command)])
        given: dict[str, Any] = {}
        for option in options:
            if option.get("required") or self._chance.random() < 0.4:
                given[option["name"]] = await self._value(name, option, given)
        given = {f"{key}_" if key == "channel" else key: value for key, value in given.items()}
        await self._member.use(name, channel=await self._channel(), **given)

    async def _imagine(self) -> None:
        options: dict[str, Any] = {"prompt": self._chance.choice(TEXTS)}
        if self._chance.random() < 0.5:
            options["variants"] = self._chance.randint(1, 4)
        if self._chance.random() < 0.3:
            options["model"] = self._chance.choice(["painter", "inker", "gone"])
        if self._chance.random() < 0.1:
            options["image"] = self._chance.choice(self._files)
        if self._chance.random() < 0.1:
            options["private"] = True
        await self._member.imagine(channel=await self._channel(), **options)

    async def _value(self, name: str, option: Json, given: Mapping[str, Any]) -> Any:
        kind = option["type"]
        if option.get("choices"):
            return self._chance.choice(option["choices"])["value"]
        if kind == STRING:
            most = option.get("max_length", 6000)
            pool = [*TEXTS, *self._some_ids()]
            return (self._chance.choice(pool)[:most]).ljust(option.get("min_length", 0), "x")
        if kind in (INTEGER, NUMBER):
            least, most = option.get("min_value", -5), option.get("max_value", 10**9)
            few = [least, most, min(most, least + 1), min(most, least + 3)]
            return self._chance.choice(few)
        if kind == BOOLEAN:
            return self._chance.random() < 0.5
        if kind in (USER, MENTIONABLE):
            return str(self._chance.choice(PEOPLE).id)
        if kind == ROLE:
            return str(MODERATORS_ID)
        if kind == CHANNEL:
            return str(self._chance.choice(CHANNELS).id)
        assert kind == ATTACHMENT, kind
        return self._chance.choice(self._files)

    def _some_ids(self) -> list[str]:
        ids = sorted(self._acts.ids)
        return [*self._chance.sample(ids, min(8, len(ids))), "zzzzzzzz"]

    async def _suggestions(self) -> None:
        if not self._commands:
            self._commands = (await self._member.state())["commands"]
        found = [
            (name, option["name"])
            for command in self._commands
            if command["type"] == 1
            for name, options in leaves(command)
            for option in options
            if option.get("autocomplete")
        ]
        name, option = self._chance.choice(found)
        typed = self._chance.choice([*TEXTS, "", "a"])[:100]
        await self._member.autocomplete(name, option, typed, channel=await self._channel())

    async def _message(self) -> Json | None:
        seen = await self._member.messages(await self._channel())
        return self._chance.choice(seen[-NEWEST:]) if seen else None

    async def _press(self) -> None:
        message = await self._message()
        parts = [part for _, part in walk((message or {}).get("components") or []) if part.get("custom_id")]
        if message is None or not parts:
            return
        part = self._chance.choice(parts)
        await self._member.press(message, part["custom_id"], values=self._chosen(part))

    def _chosen(self, part: Json) -> list[str]:
        options = [str(option["value"]) for option in part.get("options") or []]
        if part.get("type") != STRING_SELECT:
            return (
                [str(self._chance.choice((*PEOPLE, *CHANNELS)).id)] if part.get("type") in range(5, 9) else []
            )
        least, most = part.get("min_values", 1), min(part.get("max_values", 1), len(options))
        return self._chance.sample(options, self._chance.randint(min(least, len(options)), most))

    async def _submit(self) -> None:
        if not self._forms:
            return
        form = self._chance.choice(self._forms[-5:])
        await self._member.submit(form, **self._filled(form))
        if self._chance.random() < 0.7:
            self._forms.remove(form)

    def _filled(self, form: Json) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for _, part, _ in inputs(form):
            if part["type"] == TEXT_INPUT:
                if part.get("value") and self._chance.random() < 0.4:
                    values[part["custom_id"]] = part["value"]
                elif part.get("required", True) or self._chance.random() < 0.5:
                    values[part["custom_id"]] = self._chance.choice(TEXTS)[: part.get("max_length", 4000)]
            elif part.get("options"):
                values[part["custom_id"]] = self._chance.choice(part["options"])["value"]
        return values

    async def _menu(self) -> None:
        if not self._commands:
            self._commands = (await self._member.state())["commands"]
        menus = [command["name"] for command in self._commands if command["type"] == 3]
        message = await self._message()
        if menus and message is not None:
            await self._member.menu(message, self._chance.choice(menus))

    async def _say(self) -> None:
        with_file = self._chance.random() < 0.5
        files = [self._chance.choice(self._files)] if with_file else []
        await self._member.say(self._chance.choice(TEXTS)[:2000] or "x", *files)

    async def _react(self) -> None:
        if message := await self._message():
            await self._member.react(message, self._chance.choice(["👍", "⭐"]))

    async def _delete(self) -> None:
        if message := await self._message():
            await self._member.delete(message)

    async def _forge(self) -> None:
        """Send a press, a choice or a form with the ids of other rows, as the bot offers it to nobody."""
        if self._acts.forms and self._chance.random() < 0.3:
            self._forge_form(self._chance.choice(self._acts.forms))
        elif self._acts.shapes:
            self._forge_press(*self._chance.choice(sorted(self._acts.shapes.items())))

    def _forge_form(self, form: Json) -> None:
        core = self._sandbox._core
        opened = core.interactions.get(int(form["interaction_id"]))
        custom_id = self._forged(form["custom_id"])
        if opened is None or not is_one(custom_id, (each.template for each in FORMS)):
            return
        data = {**submission(form, self._filled(form)), "custom_id": custom_id}
        channel = core.world.channels[opened.channel_id]
        core.interactions.begin("modal", self._id, channel, data, message=opened.message, origin=opened)

    def _forge_press(self, known: str, message_id: int) -> None:
        core, custom_id = self._sandbox._core, self._forged(known)
        if (shown := core.world.messages.get(message_id)) is None:
            return  # deleted meanwhile
        parts = deepcopy(shown.components)
        found = [part for _, part in walk(parts) if part.get("custom_id") == known]
        if not found or not is_one(custom_id, (each.template for each in BUTTONS)):
            return
        part = found[0]
        part["custom_id"] = custom_id
        data: Json = {"custom_id": custom_id, "id": part["id"], "component_type": part["type"]}
        if part.get("options"):
            value = self._forged(self._chance.choice(part["options"])["value"])
            part["options"][0]["value"] = value
            data["values"] = [value]
        under = replace(shown, id=core.world.new_id(), components=parts, attachments=[])
        core.world.messages[under.id] = under
        channel = core.world.channels[shown.channel_id]
        core.interactions.begin("component", self._id, channel, data, message=under)

    def _forged(self, text: str) -> str:
        ids = sorted(self._acts.ids)
        return IDS.sub(lambda found: self._other(found[0], ids), text)

    @property
    def _id(self) -> int:
        return next(each.id for each in PEOPLE if each.global_name == self._member.name)

    def _other(self, known: str, ids: Sequence[str]) -> str:
        dice = self._chance.random()
        if dice < 0.5:
            alike = [each for each in ids if each.isdigit() == known.isdigit()]
            return self._chance.choice(alike or [known])
        odd = ["0", "-1", str(2**63), "9" * 19, "zzzzzzzz"]
        return self._chance.choice(odd) if dice < 0.7 else known


def is_one(custom_id: str, templates: Iterable[str]) -> bool:
    """Return whether a custom id is one of these templates."""
    return any(re.fullmatch(template, custom_id) for template in templates)


def leaves(command: Json, path: str = "") -> Iterator[tuple[str, list[Json]]]:
    """Yield each command below one of Discord's, with its options."""
    name = f"{path} {command['name']}".strip()
    below = [each for each in command.get("options") or [] if each["type"] in (SUBCOMMAND, SUBCOMMAND_GROUP)]
    if not below:
        yield name, command.get("options") or []
    for each in below:
        yield from leaves(each, name)


@contextlib.asynccontextmanager
async def random_members(sandbox: Sandbox, *, seed: int, files: Sequence[bytes], acts: Acts) -> Any:
    """Five members of the sandbox, each with a chance of their own."""
    async with contextlib.AsyncExitStack() as stack:
        members = []
        for number, person in enumerate(PEOPLE):
            member = await stack.enter_async_context(Member(sandbox.address, str(person.global_name)))
            chance = random.Random(seed * 100 + number)
            members.append(RandomMember(sandbox, member, acts, chance, files))
        yield members
