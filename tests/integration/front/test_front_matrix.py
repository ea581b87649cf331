"""Every command, menu, button and form, sent by every kind of person, past what Discord's client checks.

The interactions are sent as a modified client could send them; `matrix` says who is refused, and why.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from front_tools import finished, give_role, text_of
from matrix import ABOUT_RIGHTS, BUTTONS, COMMANDS, FORMS, MENUS, OF_HIDDEN, WITHOUT_TARGET, Row, Who
from recipes import origin, recipe
from serving import DEADLINE, Served, serving

from bot.config import Config
from bot.domain.jobs import Job
from bot.files.artifacts import Artifacts
from bot.front import features
from bot.front.answers.controls import Button, Form, Menu
from bot.front.features import commands, menus
from bot.moderation.limits import LEAST_ACTS, Pace, Rates, Sender
from bot.sandbox.client import Member
from bot.sandbox.command_options import command_data, find_command
from bot.sandbox.community import CHANNELS, GUILD_ID, PEOPLE
from bot.sandbox.context_menus import find_menu, menu_data
from bot.sandbox.interactions import Interaction
from bot.sandbox.objects import message_object
from bot.sandbox.permissions import ALL, Permission
from bot.sandbox.rejections import Json
from bot.sandbox.server import Sandbox
from bot.sandbox.state import Channel, Message
from bot.sandbox.uploads import Upload
from bot.store import Store
from bot.store.rows.audit import By, Entry
from bot.store.rows.restrictions import Scope
from bot.texts.catalogue import Texts
from bot.texts.mistakes import MISTAKES
from sdjax_engine.images import encode_png

MINA, RAVI, YUNA, OMAR, WEI = (person.id for person in PEOPLE)
ELSEWHERE = GUILD_ID + 77
ART = next(channel.id for channel in CHANNELS if channel.name == "art")
PERSONS = {
    Who.STRANGER: YUNA,
    Who.CURIOUS: YUNA,
    Who.APPOINTED: OMAR,
    Who.MODERATOR: WEI,
    Who.OWNER: MINA,
    Who.FOREIGN: MINA,
}
PICTURE = encode_png(np.zeros((8, 8, 3), np.uint8), recipe().request(0))
UNLIMITED: dict[str, Any] = {
    "limits": {"requests_per_minute": 0, "server_requests_per_minute": 0, "files_per_minute": 0},
    "queue": {"max_waiting_per_user": 2000, "server_share": 1.0},
    "models": [
        {
            "controlnets": {"canny": {"source": "nets/canny", "types": ["edges"]}},
            "image_prompt": "adapter.safetensors",
            "references": 2,
        }
    ],
}
FAULTS = frozenset({"unforeseen", "store_unavailable"})


@dataclass(kw_only=True)
class Stage:
    """A served bot, a result that the member asked for, and one message on which every button appears."""

    served: Served
    job: Job
    message: Message
    hidden: dict[Who, Job] = field(default_factory=dict)

    @property
    def core(self) -> Any:
        return self.served.sandbox._core

    async def outcome(self, who: Who, kind: str, row: Row, name: str) -> str:
        """Send a row as this person; return the mistake that answers it, or nothing."""
        before, blocks = self._refusals(), self.served.store.moderation
        scope, by = Scope(guild_id=GUILD_ID, user_id=RAVI), By(actor_id=MINA, guild_id=GUILD_ID)
        if who is Who.BLOCKED:
            await blocks.block(scope, by, until=None)
        job = await self._target(who, row) if row.has_target else self.job
        with self._seen_from(who):
            sent = self._send(kind, row, name, who=who, channel=self._channel(who), job=job)
        await self._answered(f"{name} of {who}", sent)
        if who is Who.BLOCKED:
            await blocks.unblock(scope, by)
        met = self._met(f"{name} of {who}", before)
        wrong = [reason for reason in met if reason in ABOUT_RIGHTS]
        if wrong:
            self._check_private(sent, wrong[0])
        return wrong[0] if wrong else ""

    async def at_once(self, kind: str, row: Row, name: str) -> list[str]:
        """Send a row as the owner and as a moderator at the same moment; return the mistakes they met."""
        before, job = self._refusals(), await self._target(Who.MEMBER, row) if row.has_target else self.job
        channel = self._channel(Who.OWNER)
        both = [
            self._send(kind, row, name, who=who, channel=channel, job=job)
            for who in (Who.OWNER, Who.MODERATOR)
        ]
        await self._answered(f"{name} of two at once", *both)
        return self._met(f"{name} of two at once", before)

    async def log(self) -> Sequence[Entry]:
        """The newest entries of the audit log."""
        return await self.served.store.moderation.entries(GUILD_ID, limit=100)

    async def _answered(self, what: str, *sent: Interaction) -> None:
        """Wait until the bot has answered these interactions completely."""
        async with asyncio.timeout(DEADLINE):
            while any(each.acknowledged is None and not each.failed for each in sent):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.002)
        await self.served.bot.services.open_interactions.finished()
        assert not any(each.failed for each in sent), f"{what}: no answer"

    def _met(self, what: str, before: Mapping[str, float]) -> list[str]:
        """Return the mistakes that people were told since `before`; none may be a fault of the bot."""
        met = [reason for reason, count in self._refusals().items() if count != before.get(reason, 0)]
        assert not FAULTS & set(met), f"{what}: {met}"
        return met

    def _check_private(self, sent: Interaction, reason: str) -> None:
        """Check that the person, and nobody else, was told the reason's sentence of the catalogue."""
        place = self.core.world.channels[sent.channel_id]
        said = [
            message
            for message in self.core.world.messages.values()
            if (message.interaction_metadata or {}).get("id") == str(sent.id)
        ]
        texts = Texts.for_locale(self.core.world.user(sent.member_id).locale)
        around_fields = re.split(r"\{\w+\}", texts.gettext(MISTAKES[reason]))
        shown = [(each, text_of(message_object(self.core.world, each, whole=True))) for each in said]
        told = [each for each, text in shown if all(part in text for part in around_fields)]
        assert told, f"{reason}: {[message.content for message in said]}"
        assert all(each.visible_to == sent.member_id or place.recipient_id for each in said)

    async def _target(self, who: Who, row: Row) -> Job:
        """The target: the public result, or a new one where the row ends it or the person may not see it."""
        if who not in OF_HIDDEN and not row.ends:
            return self.job
        if who in self.hidden:
            return self.hidden[who]
        number = self.core.world.new_id()
        if who is Who.FOREIGN:
            asked = origin(number, user_id=YUNA, guild_id=ELSEWHERE, channel_id=ELSEWHERE + 1)
        else:
            asked = origin(
                number,
                user_id=RAVI,
                guild_id=GUILD_ID,
                channel_id=ART,
                private=who is Who.CURIOUS or row.ends,
            )
        job = await self.served.store.jobs.enqueue(recipe(prompt="a boat"), asked)
        if who in OF_HIDDEN:
            self.hidden[who] = job
        return job

    def _channel(self, who: Who) -> Channel:
        world = self.core.world
        found: Channel = world.direct_channel(RAVI) if who is Who.DIRECT else world.channels[ART]
        return found

    @contextmanager
    def _seen_from(self, who: Who) -> Iterator[None]:
        """For ELSEWHERE, send from a server without the bot, where the person is an administrator."""
        interactions = self.core.interactions
        if who is not Who.ELSEWHERE:
            yield
            return
        usual = interactions.payload

        def elsewhere(interaction: Interaction) -> Json:
            payload = usual(interaction)
            member = {**payload["member"], "permissions": str(ALL), "roles": []}
            owners = {"1": str(RAVI)}
            guild = {**payload["guild"], "id": str(ELSEWHERE)}
            return payload | {
                "guild_id": str(ELSEWHERE),
                "guild": guild,
                "member": member,
                "authorizing_integration_owners": owners,
            }

        interactions.payload = elsewhere
        try:
            yield
        finally:
            interactions.payload = usual

    def _send(self, kind: str, row: Row, name: str, *, who: Who, channel: Channel, job: Job) -> Interaction:
        core, person = self.core, PERSONS.get(who, RAVI)
        given: dict[str, Any] = {}
        if kind == "command":
            data = self._command(name, row, channel, job)
            given["name"] = name
        elif kind == "menu":
            data = menu_data(core.world, find_menu(core.commands.all("global"), name), self.message)
            given["name"] = name
        elif kind == "modal":
            data = {"custom_id": row.custom_id.format(job=job.id), "components": _filled(row.fields)}
            given["origin"] = SimpleNamespace(metadata=self.message.interaction_metadata)
            if row.has_target or row.under_message:
                given["message"] = self._under(channel, _component(row, job.id))
        else:
            component = _component(row, job.id)
            data = {"component_type": component["type"], "custom_id": component["custom_id"], "id": 2}
            data |= {"values": [value.format(job=job.id) for value in row.values]} if row.values else {}
            given["message"] = self._under(channel, component)
        sent: Interaction = core.interactions.begin(kind, person, channel, data, **given)
        return sent

    def _command(self, name: str, row: Row, channel: Channel, job: Job) -> Json:
        world, registered = self.core.world, self.core.commands.all("global")
        options = {
            key: value.format(member=YUNA, job=job.id) if isinstance(value, str) else value
            for key, value in row.options.items()
        }
        command = find_command(registered, name)
        files = {0: Upload(filename="kite.png", data=PICTURE)}
        return command_data(world, channel, command, name, options, files=files, most_bytes=10_000)

    def _under(self, channel: Channel, component: Json) -> Message:
        """The message, with this component alone, in the channel of the press."""
        world = self.core.world
        known: dict[str, Any] = self.message.interaction_metadata or {}
        owners = {"0": "0"} if channel.recipient_id else {"0": str(GUILD_ID)}
        shown = replace(
            self.message,
            channel_id=channel.id,
            components=[{"type": 1, "id": 1, "components": [component]}],
            attachments=[],
            interaction_metadata={**known, "id": "1", "authorizing_integration_owners": owners},
        )
        world.messages[shown.id] = shown
        return shown

    def _refusals(self) -> dict[str, float]:
        [family] = self.served.bot.services.metrics.refusals.collect()
        return {each.labels["reason"]: each.value for each in family.samples if each.name.endswith("_total")}


def _component(row: Row, job_id: str) -> Json:
    custom_id = row.custom_id.format(job=job_id)
    if row.values is None:
        return {"type": 2, "id": 2, "style": 2, "label": "x", "custom_id": custom_id}
    options = [{"label": "x", "value": value.format(job=job_id)} for value in row.values]
    return {"type": 3, "id": 2, "custom_id": custom_id, "options": options, "min_values": 1, "max_values": 1}


def _filled(fields: Mapping[str, str]) -> list[Json]:
    return [
        {
            "type": 18,
            "id": number,
            "component": {"type": 4, "id": 100 + number, "custom_id": name, "value": value},
        }
        for number, (name, value) in enumerate(fields.items(), 1)
    ]


@pytest.fixture
async def stage(
    lenient: Sandbox, store: Store, artifacts: Artifacts, discord_address: object
) -> AsyncIterator[Stage]:
    """Wei moderates, Omar may manage the messages of one channel, Mina owns the server."""
    give_role(lenient, WEI, Permission.MANAGE_MESSAGES)
    lenient.appoint("art", "omar")
    config = Config.parse(UNLIMITED)
    async with serving(lenient, store, artifacts, config) as served, Member(lenient.address, "Ravi") as ravi:
        job, message = await finished(served, ravi, "a boat")
        shown = lenient._core.world.messages[int(message["id"])]
        yield Stage(served=served, job=job, message=shown)


def leaves() -> dict[str, Any]:
    """Every slash command by its whole name, and the command that Discord knows it under."""
    found = {}
    for command in commands([model.offer for model in Config().models]):
        below = list(getattr(command, "commands", ())) or [command]
        found |= {each.qualified_name: command for each in below}
    return found


def template_of(custom_id: str, controls: Iterable[Button | Menu | Form]) -> str:
    """The template of the button, menu or form with this id."""
    (found,) = (each.template for each in controls if re.fullmatch(each.template, custom_id.format(job="0a")))
    return found


def test_every_command_menu_button_and_form_has_a_row() -> None:
    assert set(leaves()) == set(COMMANDS)
    assert {
        str(menu.name) for menu in menus([model.offer for model in Config.parse(UNLIMITED).models])
    } == set(MENUS)
    for rows, controls in ((BUTTONS, features.BUTTONS), (FORMS, features.FORMS)):
        found = {template_of(row.custom_id, controls) for row in rows.values()}
        assert found == {each.template for each in controls}


def _permission(row: Row) -> Permission:
    return Permission.MANAGE_EVENTS if row.hosting else Permission.MANAGE_MESSAGES


async def test_each_person_may_do_what_the_table_says_and_reads_why_not(stage: Stage) -> None:
    tables = {"command": COMMANDS, "menu": MENUS, "component": BUTTONS, "modal": FORMS}
    wrong = []
    for kind, name, row in ((kind, *each) for kind, table in tables.items() for each in table.items()):
        for who in (*WITHOUT_TARGET, *(OF_HIDDEN if row.has_target else ())):
            met, expected = await stage.outcome(who, kind, row, name), row.refused.get(who, "")
            if met != expected:
                wrong.append(f"{name} of {who}: {met or 'let in'}, not {expected or 'let in'}")
    assert not wrong, "\n".join(wrong)


async def test_two_who_act_at_the_same_moment_each_get_an_answer_and_nothing_is_done_twice(
    stage: Stage,
) -> None:
    tables = {"modal": FORMS, "command": COMMANDS, "menu": MENUS, "component": BUTTONS}
    doubled = {}
    for kind, name, row in ((kind, *each) for kind, table in tables.items() for each in table.items()):
        newest = max((entry.id for entry in await stage.log()), default=0)
        await stage.at_once(kind, row, name)
        done = [
            (entry.act, entry.subject_id, repr(entry.before), repr(entry.after))
            for entry in await stage.log()
            if entry.id > newest
        ]
        if len(done) != len(set(done)):
            doubled[name] = done
    assert not doubled, doubled
    assert stage.served.sandbox.violations == []


async def test_who_acts_too_often_is_told_so_by_every_command_menu_button_and_form(stage: Stage) -> None:
    pace = Pace(Rates(requests=1), clock=lambda: 0.0)
    for person in {*PERSONS.values(), RAVI}:
        for _ in range(LEAST_ACTS):
            pace.act(Sender(user_id=person, guild_id=None))
    stage.served.bot.services = replace(stage.served.bot.services, pace=pace)
    tables = {"command": COMMANDS, "menu": MENUS, "component": BUTTONS, "modal": FORMS}
    for kind, name, row in ((kind, *each) for kind, table in tables.items() for each in table.items()):
        before = stage._refusals()
        await stage.outcome(Who.OWNER, kind, row, name)
        assert stage._met(name, before) == ["too_quick"], name


async def test_discord_is_told_who_may_have_each_command(stage: Stage) -> None:
    for command in stage.core.commands.all("global"):
        rows = [row for name, row in COMMANDS.items() if name.split()[0] == command["name"]]
        row = next(iter(rows), MENUS.get(command["name"], Row()))
        asked = str(int(_permission(row))) if row.moderating or row.hosting else None
        assert command["default_member_permissions"] == asked, command["name"]
        assert command["contexts"] == ([0, 1] if asked is None else [0]), command["name"]
        assert command["integration_types"] == [0], command["name"]


LARGE_NUMBERS = (2**31, 10**18 - 1, 2**63, 10**19 - 1)


def with_large_numbers(row: Row, template: str, job_id: str) -> Iterator[Row]:
    """Yield the row with a number of its custom id, or its choice, replaced by each large one that fits."""
    custom_id = row.custom_id.format(job=job_id)
    for found in re.finditer(r"(?<=:)\d+(?=:|$)", custom_id):
        for number in LARGE_NUMBERS:
            changed = f"{custom_id[: found.start()]}{number}{custom_id[found.end() :]}"
            if re.fullmatch(template, changed):
                yield replace(row, custom_id=changed)
    for text in (*map(str, LARGE_NUMBERS), "9" * 100) if row.values else ():
        yield replace(row, custom_id=custom_id, values=(text,))


async def test_numbers_that_no_row_has_are_answered_with_a_sentence(stage: Stage) -> None:
    rows = [
        (kind, *each) for kind, table in (("component", BUTTONS), ("modal", FORMS)) for each in table.items()
    ]
    rows.append(("component", "privacy", Row(custom_id="privacy:export:1:0")))
    sent = 0
    for kind, _, row in rows:
        controls = features.BUTTONS if kind == "component" else features.FORMS
        for changed in with_large_numbers(row, template_of(row.custom_id, controls), stage.job.id):
            await stage.outcome(Who.OWNER, kind, changed, f"{changed.custom_id} {changed.values}")
            sent += 1
    assert sent > 40
