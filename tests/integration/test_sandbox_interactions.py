"""Interactions in the sandbox: deadlines, responses of every kind, tokens, visibility."""

from __future__ import annotations

from typing import Any

import pytest
from sandbox_tools import GLOBAL_COMMANDS, MESSAGES, PAINT, Answer, FakeClock, MakeMember, Raw

from bot.sandbox.client import InteractionFailed, Member, RefusedByClient
from bot.sandbox.community import BOT_ID
from bot.sandbox.server import Sandbox

MESSAGE, DEFERRED, DEFERRED_UPDATE, UPDATE, CHOICES, MODAL = 4, 5, 6, 7, 8, 9
EPHEMERAL, LOADING = 64, 128
BUTTONS = [{"type": 1, "components": [{"type": 2, "style": 1, "label": "Go", "custom_id": "go"}]}]
MODAL_BODY = {
    "custom_id": "m",
    "title": "T",
    "components": [{"type": 18, "label": "L", "component": {"type": 4, "custom_id": "t", "style": 1}}],
}


class ReceivedInteraction:
    """An interaction as the bot received it."""

    def __init__(self, bot: Raw, payload: dict[str, Any]) -> None:
        self.bot = bot
        self.payload = payload
        self.webhook = f"/webhooks/{BOT_ID}/{payload['token']}"

    async def answer(self, kind: int, data: Any = None) -> Answer:
        path = f"/interactions/{self.payload['id']}/{self.payload['token']}/callback?with_response=1"
        return await self.bot.call("POST", path, {"type": kind} | ({"data": data} if data else {}), token="")

    async def call(self, method: str, path: str, body: Any = None) -> Answer:
        return await self.bot.call(method, self.webhook + path, body, token="")


class InteractionScene:
    """A bot at the gateway with one command, and Mina."""

    def __init__(self, sandbox: Sandbox, bot: Raw, mina: Member) -> None:
        self.sandbox, self.bot, self.mina = sandbox, bot, mina

    async def begin(self) -> None:
        await self.bot.call("PUT", GLOBAL_COMMANDS, [PAINT])
        self.line = await self.bot.identify()
        await self.line.event("GUILD_CREATE")

    async def asked(self) -> ReceivedInteraction:
        return ReceivedInteraction(self.bot, await self.line.event("INTERACTION_CREATE"))

    async def paint(self) -> ReceivedInteraction:
        await self.mina.use("paint")
        return await self.asked()

    async def pressed(self) -> ReceivedInteraction:
        """A press on the button of a message that the bot has written."""
        sent = await self.bot.call("POST", MESSAGES, {"content": "press", "components": BUTTONS})
        await self.mina.press(sent.body, "Go")
        return await self.asked()


@pytest.fixture
async def scene(timed: Sandbox, member: MakeMember) -> Any:
    async with Raw(timed) as bot:
        scene = InteractionScene(timed, bot, await member(timed))
        await scene.begin()
        yield scene


async def test_an_interaction_has_its_member_channel_and_permissions(scene: InteractionScene) -> None:
    payload = (await scene.paint()).payload
    assert payload["member"]["user"]["username"] == "mina"
    assert payload["channel"]["name"] == "art"
    assert payload["attachment_size_limit"] == 20 * 1024 * 1024
    assert (payload["locale"], payload["version"]) == ("en-US", 1)


async def test_a_direct_message_channel_has_a_user_and_no_server(scene: InteractionScene) -> None:
    await scene.mina.use("paint", channel="dm")
    payload = (await scene.asked()).payload
    assert (payload["user"]["username"], payload["context"]) == ("mina", 1)
    assert not {"member", "guild_id"} & payload.keys()


async def test_an_answer_after_three_seconds_is_refused(scene: InteractionScene, clock: FakeClock) -> None:
    asked = await scene.paint()
    clock.advance(3)
    answer = await asked.answer(MESSAGE, {"content": "late"})
    assert (answer.status, answer.code) == (404, 10062)
    with pytest.raises(InteractionFailed):
        await scene.mina.message_of(asked.payload["id"], timeout=5)
    assert scene.sandbox.violations == ["command paint: no acknowledgement within 3 s"]


async def test_a_missing_answer_of_a_disconnected_bot_is_no_violation(
    scene: InteractionScene, clock: FakeClock
) -> None:
    await scene.line.socket.close()
    while scene.sandbox.connected:
        await scene.mina.messages()
    interaction = await scene.mina.use("paint")
    clock.advance(3)
    with pytest.raises(InteractionFailed):
        await scene.mina.message_of(interaction, timeout=5)
    assert scene.sandbox.violations == []


async def test_a_second_acknowledgement_is_refused(scene: InteractionScene) -> None:
    asked = await scene.paint()
    assert (await asked.answer(DEFERRED)).status == 200
    again = await asked.answer(MESSAGE, {"content": "x"})
    assert (again.status, again.code) == (400, 40060)
    assert "40060" in scene.sandbox.violations[0]


async def test_an_unknown_interaction_is_refused(scene: InteractionScene) -> None:
    asked = await scene.paint()
    asked.payload["token"] = "another"
    answer = await asked.answer(DEFERRED)
    assert (answer.status, answer.code) == (404, 10062)
    assert "10062" in scene.sandbox.violations[0]


async def test_the_answer_with_response_shows_the_message(scene: InteractionScene) -> None:
    answer = await (await scene.paint()).answer(MESSAGE, {"content": "here", "flags": EPHEMERAL})
    assert answer.body["interaction"]["response_message_ephemeral"]
    assert answer.body["resource"]["type"] == MESSAGE
    message = answer.body["resource"]["message"]
    assert (message["content"], message["type"]) == ("here", 20)
    assert message["interaction_metadata"]["user"]["username"] == "mina"


async def test_a_deferred_answer_is_loading_until_it_is_edited(scene: InteractionScene) -> None:
    asked = await scene.paint()
    answer = await asked.answer(DEFERRED)
    assert answer.body["interaction"]["response_message_loading"]
    (waiting,) = await scene.mina.messages()
    assert waiting["flags"] == LOADING
    edited = await asked.call("PATCH", "/messages/@original", {"content": "done"})
    assert (edited.status, edited.body["flags"], edited.body["id"]) == (200, 0, waiting["id"])
    assert (await asked.call("GET", "/messages/@original")).body == edited.body


async def test_the_first_follow_up_replaces_a_loading_answer(scene: InteractionScene) -> None:
    asked = await scene.paint()
    await asked.answer(DEFERRED, {"flags": EPHEMERAL})
    (waiting,) = await scene.mina.messages()
    first = await asked.call("POST", "?wait=true", {"content": "first"})
    second = await asked.call("POST", "?wait=true", {"content": "second"})
    assert (first.body["id"], first.body["flags"]) == (waiting["id"], EPHEMERAL)
    assert (second.body["flags"], second.body["id"] == waiting["id"]) == (0, False)
    assert (await asked.call("POST", "", {"content": "third"})).status == 204


async def test_a_deferred_answer_that_never_comes_is_a_violation(
    scene: InteractionScene, clock: FakeClock
) -> None:
    asked = await scene.paint()
    await asked.answer(DEFERRED)
    clock.advance(15 * 60)
    with pytest.raises(InteractionFailed):
        await scene.mina.message_of(asked.payload["id"], timeout=5)
    assert scene.sandbox.violations == ["command paint: deferred and never answered within 15 min"]


async def test_a_token_expires_after_fifteen_minutes(scene: InteractionScene, clock: FakeClock) -> None:
    asked = await scene.paint()
    await asked.answer(MESSAGE, {"content": "x"})
    clock.advance(15 * 60 - 1)
    assert (await asked.call("PATCH", "/messages/@original", {"content": "y"})).status == 200
    clock.advance(1)
    dead = await asked.call("PATCH", "/messages/@original", {"content": "z"})
    assert (dead.status, dead.code) == (401, 50027)
    assert len(scene.sandbox.violations) == 1
    (seen,) = await scene.mina.messages()
    by_bot = await scene.bot.call("PATCH", f"{MESSAGES}/{seen['id']}", {"content": "by the bot"})
    assert by_bot.body["content"] == "by the bot"


async def test_tokens_expired_on_purpose_are_no_violation(scene: InteractionScene) -> None:
    asked = await scene.paint()
    await asked.answer(DEFERRED)
    scene.sandbox.misbehave(expire_tokens=True)
    assert (await asked.call("PATCH", "/messages/@original", {"content": "y"})).status == 401
    assert scene.sandbox.violations == []


async def test_a_token_is_invalid_before_the_acknowledgement_and_for_other_messages(
    scene: InteractionScene,
) -> None:
    asked = await scene.paint()
    early = await asked.call("POST", "", {"content": "early"})
    assert (early.status, early.code) == (404, 10015)
    await asked.answer(MESSAGE, {"content": "x"})
    other = await scene.bot.call("POST", MESSAGES, {"content": "other"})
    assert (await asked.call("PATCH", f"/messages/{other.body['id']}", {"content": "y"})).code == 10008
    assert len(scene.sandbox.violations) == 1


async def test_the_bots_token_cannot_reach_an_ephemeral_message(scene: InteractionScene) -> None:
    asked = await scene.paint()
    answer = await asked.answer(MESSAGE, {"content": "x", "flags": EPHEMERAL})
    path = f"{MESSAGES}/{answer.body['resource']['message']['id']}"
    for method in ("GET", "PATCH", "DELETE"):
        body = {"content": "y"} if method == "PATCH" else None
        assert (await scene.bot.call(method, path, body)).code == 10008
    assert (await scene.bot.call("GET", MESSAGES)).body == []
    assert (await asked.call("DELETE", "/messages/@original")).status == 204
    assert await scene.mina.messages() == []


async def test_a_button_can_update_its_message_at_once_or_later(scene: InteractionScene) -> None:
    at_once = await scene.pressed()
    answer = await at_once.answer(UPDATE, {"content": "updated"})
    assert answer.body["resource"]["message"]["content"] == "updated"
    later = await scene.pressed()
    assert (await later.answer(DEFERRED_UPDATE)).body.keys() == {"interaction"}
    edited = await later.call("PATCH", "/messages/@original", {"content": "later", "components": []})
    assert edited.body["id"] == later.payload["message"]["id"]
    assert [each["content"] for each in await scene.mina.messages()] == ["updated", "later"]


async def test_a_button_can_be_answered_by_a_new_message(scene: InteractionScene) -> None:
    asked = await scene.pressed()
    answer = await asked.answer(MESSAGE, {"content": "new"})
    metadata = answer.body["resource"]["message"]["interaction_metadata"]
    assert metadata["interacted_message_id"] == asked.payload["message"]["id"]


@pytest.mark.parametrize("kind", [1, DEFERRED_UPDATE, UPDATE, CHOICES, 12])
async def test_a_command_cannot_be_answered_as_if_it_were_something_else(
    scene: InteractionScene, kind: int
) -> None:
    answer = await (await scene.paint()).answer(kind, {"content": "x"})
    assert answer.error("type") == "BASE_TYPE_CHOICES"
    assert len(scene.sandbox.violations) == 1


async def test_a_modal_is_filled_in_and_names_where_it_came_from(scene: InteractionScene) -> None:
    asked = await scene.paint()
    assert (await asked.answer(MODAL, MODAL_BODY)).status == 200
    modal = await scene.mina.modal_of(asked.payload["id"])
    with pytest.raises(RefusedByClient, match="required"):
        await scene.mina.submit(modal, t="")
    await scene.mina.submit(modal, t="words")
    submitted = await scene.asked()
    assert submitted.payload["data"]["components"][0]["component"]["value"] == "words"
    answer = await submitted.answer(MESSAGE, {"content": "thanks"})
    metadata = answer.body["resource"]["message"]["interaction_metadata"]
    assert metadata["triggering_interaction_metadata"]["id"] == asked.payload["id"]


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"title": "t" * 46}, ("title",)),
        ({"custom_id": ""}, ("custom_id",)),
        ({"components": []}, ("components",)),
        ({"components": MODAL_BODY["components"] * 6}, ("components",)),
        ({"components": [{"type": 10, "content": "x"}, {"type": 2}]}, ("components", "1", "type")),
        ({"components": MODAL_BODY["components"] * 2}, ("components", "1", "component", "custom_id")),
    ],
)
async def test_a_malformed_modal_is_refused(
    scene: InteractionScene, changes: dict[str, Any], where: tuple[str, ...]
) -> None:
    answer = await (await scene.paint()).answer(MODAL, {**MODAL_BODY, **changes})
    assert answer.error("data", *where)
    assert len(scene.sandbox.violations) == 1


async def test_unknown_fields_of_an_answer_are_logged(scene: InteractionScene) -> None:
    await (await scene.paint()).answer(MESSAGE, {"content": "x", "ephemeral": True})
    assert scene.sandbox.violations == ["interaction callback: unknown field ephemeral"]
