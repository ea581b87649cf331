"""Forms with menus, buttons, checkboxes and files: what Discord refuses, and what it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sandbox_tools import GLOBAL_COMMANDS, Answer, Line, MakeMember, Raw

from bot.sandbox.client import Member, RefusedByClient
from bot.sandbox.server import Sandbox

COLOURS = [{"label": name.title(), "value": name} for name in ("red", "green", "blue")]
MENU, RADIO, BOXES, BOX, FILES = 3, 21, 22, 23, 19


def part(kind: int, **more: Any) -> dict[str, Any]:
    """A labelled input of this kind."""
    options = {} if kind in (BOX, FILES) else {"options": [dict(option) for option in COLOURS]}
    return {
        "type": 18,
        "label": "Which",
        "component": {"type": kind, "custom_id": "which", **options, **more},
    }


class Desk:
    """Mina, who opens forms with /form, and the bot."""

    def __init__(self, bot: Raw, mina: Member, line: Line) -> None:
        self.bot, self.mina, self._line = bot, mina, line

    async def opened(self, *parts: dict[str, Any]) -> tuple[Answer, dict[str, Any]]:
        """Open a form of these parts; return the answer to the bot, and the form if there is one."""
        interaction = await self.mina.use("form")
        asked = await self._line.event("INTERACTION_CREATE")
        path = f"/interactions/{asked['id']}/{asked['token']}/callback"
        form = {"custom_id": "f", "title": "F", "components": [*parts]}
        answer = await self.bot.call("POST", path, {"type": 9, "data": form})
        return answer, await self.mina.modal_of(interaction) if answer.status == 204 else {}

    async def sent(self, form: dict[str, Any], **values: Any) -> dict[str, Any]:
        """Submit the form and return what the bot gets."""
        await self.mina.submit(form, **values)
        data: dict[str, Any] = (await self._line.event("INTERACTION_CREATE"))["data"]
        return data


@pytest.fixture
async def desk(lenient: Sandbox, member: MakeMember) -> AsyncIterator[Desk]:
    async with Raw(lenient) as bot:
        await bot.call("PUT", GLOBAL_COMMANDS, [{"name": "form", "description": "Fill in a form"}])
        line = await bot.identify()
        await line.event("GUILD_CREATE")
        yield Desk(bot, await member(lenient), line)


@pytest.mark.parametrize(
    ("odd", "where"),
    [
        (part(MENU, options=[]), ("options",)),
        (part(RADIO, options=COLOURS[:1]), ("options",)),
        (part(RADIO, options=[{"label": "x", "value": str(n)} for n in range(11)]), ("options",)),
        (part(RADIO, options=[COLOURS[0]] * 2), ("options",)),
        (part(RADIO, options=[{**one, "default": True} for one in COLOURS]), ("options",)),
        (part(RADIO, options=[COLOURS[0], {"label": "x" * 101, "value": "x"}]), ("options", "1", "label")),
        (part(BOXES, options=[]), ("options",)),
        (part(BOXES, max_values=4), ("max_values",)),
        (part(BOXES, min_values=0), ("min_values",)),
        (part(FILES, min_values=0), ("min_values",)),
        (part(FILES, max_values=11), ("max_values",)),
        (part(FILES, file_types=["png"]), ("file_types", "0")),
        (part(FILES, file_types=[".png"] * 11), ("file_types",)),
        (part(MENU, min_values=0), ("min_values",)),
        (part(MENU, disabled=True), ("disabled",)),
    ],
)
async def test_a_malformed_part_is_refused(desk: Desk, odd: dict[str, Any], where: tuple[str, ...]) -> None:
    answer, _ = await desk.opened(odd)
    assert answer.error("data", "components", "0", "component", *where)


CHOSEN = [{**COLOURS[0], "default": True}, *COLOURS[1:]]


@pytest.mark.parametrize(
    ("asked", "given", "key", "value"),
    [
        (part(MENU, options=CHOSEN), None, "values", ["red"]),
        (part(MENU), ["blue"], "values", ["blue"]),
        (part(RADIO), "green", "value", "green"),
        (part(RADIO, options=CHOSEN), None, "value", "red"),
        (part(RADIO, required=False), None, "value", None),
        (part(BOXES), ["red", "blue"], "values", ["red", "blue"]),
        (part(BOXES, options=CHOSEN), None, "values", ["red"]),
        (part(BOXES, required=False, min_values=0), [], "values", []),
        (part(BOX), None, "value", False),
        (part(BOX), True, "value", True),
        (part(BOX, default=True), None, "value", True),
        (part(BOX, default=True), False, "value", False),
        (part(FILES, required=False), None, "values", []),
    ],
)
async def test_the_bot_gets_what_is_chosen(
    desk: Desk, asked: dict[str, Any], given: Any, key: str, value: Any
) -> None:
    _, form = await desk.opened(asked)
    data = await desk.sent(form, **({} if given is None else {"which": given}))
    (labelled,) = data["components"]
    got = labelled["component"]
    assert (labelled["type"], got["type"], got["custom_id"]) == (18, asked["component"]["type"], "which")
    assert got[key] == value
    assert "resolved" not in data


@pytest.mark.parametrize(
    ("asked", "given", "said"),
    [
        (part(MENU), ["pink"], "Which: choose one of those"),
        (part(MENU, options=CHOSEN), [], "Which: this field is required"),
        (part(RADIO), None, "Which: this field is required"),
        (part(RADIO), "pink", "Which: choose one of those"),
        (part(RADIO), ["red", "blue"], "Which: choose at most 1"),
        (part(BOXES, options=CHOSEN), [], "Which: this field is required"),
        (part(BOXES, min_values=2), ["red"], "Which: choose at least 2"),
        (part(BOXES, max_values=1), ["red", "blue"], "Which: choose at most 1"),
        (part(BOX), "yes", "Which: must be checked or not"),
        (part(FILES), None, "Which: this field is required"),
        (part(FILES), "a.png", "Which: must be a file"),
        (part(FILES), [b"x", b"x"], "Which: choose at most 1"),
        (part(FILES, file_types=["image"]), ("a.txt", b"x"), "Which: a.txt is not of a type that is taken"),
    ],
)
async def test_an_impossible_submission_is_refused(
    desk: Desk, asked: dict[str, Any], given: Any, said: str
) -> None:
    _, form = await desk.opened(asked)
    with pytest.raises(RefusedByClient, match=said):
        await desk.mina.submit(form, **({} if given is None else {"which": given}))


async def test_files_reach_the_bot_with_their_addresses(desk: Desk) -> None:
    _, form = await desk.opened(part(FILES, max_values=2, file_types=["image", ".txt"]))
    data = await desk.sent(form, which=[("a sun.png", b"sun"), ("notes.txt", b"words")])
    values = data["components"][0]["component"]["values"]
    attached = data["resolved"]["attachments"]
    assert list(attached) == values
    assert [attached[key]["filename"] for key in values] == ["a_sun.png", "notes.txt"]
    assert all(attached[key]["ephemeral"] for key in values)
    async with desk.bot.session.get(attached[values[0]]["url"]) as served:
        assert await served.read() == b"sun"
