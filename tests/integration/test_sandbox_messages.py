"""Messages in the sandbox: Discord's refusals, and the log of violations."""

from __future__ import annotations

import time
from typing import Any

import pytest
from message_bodies import EPHEMERAL, V2, button, row, text, v2
from sandbox_tools import ART, CHANNEL_IDS, MESSAGES, FakeClock, MakeMember, Raw
from serving import until

from bot.sandbox.community import GUILD_ID
from bot.sandbox.objects import IS_SPOILER
from bot.sandbox.permissions import Permission
from bot.sandbox.rules import Limits
from bot.sandbox.server import Sandbox


@pytest.mark.parametrize("body", [{}, {"content": " \n"}, {"components": [row(button("a"))]}, v2()])
async def test_an_empty_message_is_refused_and_logged(lenient: Sandbox, body: dict[str, Any]) -> None:
    async with Raw(lenient) as bot:
        answer = await bot.call("POST", MESSAGES, body)
    assert (answer.status, answer.code) == (400, 50006)
    assert "50006" in lenient.violations[0]


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", MESSAGES, {"content": "x", "contnt": "y"}, "unknown field contnt"),
        (
            "POST",
            MESSAGES,
            {"content": "x", "flags": EPHEMERAL},
            "only an interaction's answer can be ephemeral",
        ),
        ("POST", MESSAGES, v2({**text("x"), "txet": 1}), "unknown field components.0.txet"),
        ("GET", f"{MESSAGES}?limt=1", None, "unknown query parameter limt"),
    ],
)
async def test_fields_that_discord_ignores_are_accepted_and_logged(
    lenient: Sandbox, method: str, path: str, body: Any, said: str
) -> None:
    async with Raw(lenient) as bot:
        assert (await bot.call(method, path, body)).status == 200
    assert said in lenient.violations[0]


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "before=yesterday"])
async def test_a_wrong_query_string_is_refused(lenient: Sandbox, query: str) -> None:
    async with Raw(lenient) as bot:
        answer = await bot.call("GET", f"{MESSAGES}?{query}")
    assert (answer.status, answer.code) == (400, 50035)
    assert lenient.violations


async def test_unknown_paths_and_invalid_bodies_are_refused(lenient: Sandbox) -> None:
    async with Raw(lenient) as bot:
        assert (await bot.call("GET", "/no/such/thing")).status == 404
        assert (await bot.call("POST", MESSAGES, "{")).code == 50109
        assert (await bot.call("POST", MESSAGES, {"content": "x"}, token="")).status == 401
    assert len(lenient.violations) == 3


async def test_files_over_the_limit_are_refused(documents: Any) -> None:
    async with Sandbox(observer=documents, limits=Limits(file=1000, request=2500, stated=1000)) as sandbox:
        async with Raw(sandbox) as bot:
            for files in ({"a.bin": b"x" * 1001}, dict.fromkeys(("a", "b", "c"), b"x" * 900)):
                answer = await bot.call("POST", MESSAGES, {"content": "x"}, files=files)
                assert (answer.status, answer.code) == (413, 40005)
            fitting = await bot.call("POST", MESSAGES, {"content": "x"}, files={"a.bin": b"x" * 1000})
            assert fitting.body["attachments"][0]["size"] == 1000
        assert len(sandbox.violations) == 2


async def test_a_file_within_an_overstated_limit_is_refused_without_a_violation(documents: Any) -> None:
    async with Sandbox(observer=documents, limits=Limits(file=1000)) as sandbox, Raw(sandbox) as bot:
        answer = await bot.call("POST", MESSAGES, {"content": "x"}, files={"a.bin": b"x" * 1001})
        assert (answer.status, answer.code) == (413, 40005)
        assert sandbox.violations == []


async def test_an_edit_keeps_the_attachments_it_lists_and_drops_the_others(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        sent = await bot.call("POST", MESSAGES, {"content": "x"}, files={"a.txt": b"a", "b.txt": b"b"})
        first, second = sent.body["attachments"]
        path = f"{MESSAGES}/{sent.body['id']}"
        untouched = await bot.call("PATCH", path, {"content": "y"})
        assert untouched.body["attachments"] == [first, second]
        kept = [{"id": second["id"]}, {"id": "0", "description": "the new one"}]
        edited = await bot.call("PATCH", path, {"attachments": kept}, files={"c.txt": b"c"})
        assert [each["filename"] for each in edited.body["attachments"]] == ["b.txt", "c.txt"]
        assert edited.body["attachments"][1]["description"] == "the new one"
        added = await bot.call("PATCH", path, {"content": "z"}, files={"d.txt": b"d"})
        assert [each["filename"] for each in added.body["attachments"]] == ["b.txt", "c.txt", "d.txt"]
        emptied = await bot.call("PATCH", path, {"attachments": []})
        assert emptied.body["attachments"] == []


async def test_a_file_is_covered_by_its_name_or_its_field_and_an_edit_changes_that(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        listed = [{"id": "1", "is_spoiler": True}, {"id": "2", "is_spoiler": False}]
        names = {"SPOILER_a.txt": b"a", "b.txt": b"b", "SPOILER_c.txt": b"c"}
        sent = await bot.call("POST", MESSAGES, {"content": "x", "attachments": listed}, files=names)
        first, second, third = sent.body["attachments"]
        assert [each.get("flags") for each in (first, second, third)] == [IS_SPOILER, IS_SPOILER, None]
        kept = [{"id": first["id"], "is_spoiler": False}, {"id": second["id"]}]
        kept.append({"id": third["id"], "is_spoiler": True, "description": "a letter"})
        edited = await bot.call("PATCH", f"{MESSAGES}/{sent.body['id']}", {"attachments": kept})
        assert [each.get("flags") for each in edited.body["attachments"]] == [None, IS_SPOILER, IS_SPOILER]
        assert edited.body["attachments"][2]["description"] == "a letter"


async def test_whether_a_file_is_covered_is_true_or_false(lenient: Sandbox) -> None:
    async with Raw(lenient) as bot:
        wrong = {"content": "x", "attachments": [{"id": "0", "is_spoiler": "yes"}]}
        answer = await bot.call("POST", MESSAGES, wrong, files={"a.txt": b"a"})
    assert answer.error("attachments", "0", "is_spoiler") == "BOOLEAN_TYPE_CONVERT"


async def test_an_attachment_is_served_under_its_address_even_after_its_message(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        sent = await bot.call("POST", MESSAGES, {"content": "x"}, files={"두 별 a.txt": b"stars"})
        attachment = sent.body["attachments"][0]
        assert attachment["filename"] == "__a.txt"
        await bot.call("DELETE", f"{MESSAGES}/{sent.body['id']}")
        async with bot.session.get(attachment["url"]) as served:
            assert (await served.read(), served.content_type) == (b"stars", "text/plain")
            assert "immutable" in served.headers["Cache-Control"]
        missing = attachment["url"].replace(attachment["id"], "1")
        async with bot.session.get(missing) as none:
            assert none.status == 404


async def test_components_v2_cannot_be_removed_but_can_be_added(lenient: Sandbox) -> None:
    async with Raw(lenient) as bot:
        sent = await bot.call("POST", MESSAGES, {"content": "x"})
        path = f"{MESSAGES}/{sent.body['id']}"
        beside = await bot.call("PATCH", path, v2(text("y")))
        assert beside.error("content") == "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2"
        changed = await bot.call("PATCH", path, v2(text("y"), content=None))
        assert (changed.status, changed.body["flags"], changed.body["content"]) == (200, V2, "")
        back = await bot.call("PATCH", path, {"flags": 0, "content": "x", "components": []})
        assert back.error("flags") == "MESSAGE_CANNOT_REMOVE_COMPONENTS_V2_FLAG"
    assert len(lenient.violations) == 2


async def test_the_same_nonce_gives_the_first_message_for_some_minutes(
    timed: Sandbox, clock: FakeClock
) -> None:
    async with Raw(timed) as bot:
        body = {"content": "x", "nonce": "n", "enforce_nonce": True}
        first = await bot.call("POST", MESSAGES, body)
        again = await bot.call("POST", MESSAGES, body)
        unforced = await bot.call("POST", MESSAGES, {"content": "x", "nonce": "n"})
        clock.advance(301)
        later = await bot.call("POST", MESSAGES, body)
    assert first.body["id"] == again.body["id"]
    assert len({first.body["id"], unforced.body["id"], later.body["id"]}) == 3


async def test_mentions_notify_only_those_that_are_allowed(sandbox: Sandbox, member: MakeMember) -> None:
    mina = await member(sandbox)
    people = {each["username"]: each["id"] for each in (await mina.state())["members"]}
    words = f"@everyone <@{people['mina']}> <@{people['ravi']}>"
    async with Raw(sandbox) as bot:
        free = await bot.call("POST", MESSAGES, {"content": words})
        none = await bot.call("POST", MESSAGES, {"content": words, "allowed_mentions": {"parse": []}})
        one = await bot.call(
            "POST", MESSAGES, {"content": words, "allowed_mentions": {"users": [people["ravi"]]}}
        )
        shown = await bot.call("POST", MESSAGES, v2(text(words), allowed_mentions={"parse": []}))
    assert [each["username"] for each in free.body["mentions"]] == ["mina", "ravi"]
    assert not free.body["mention_everyone"]  # the bot may not mention everyone
    assert none.body["mentions"] == shown.body["mentions"] == []
    assert [each["username"] for each in one.body["mentions"]] == ["ravi"]


async def test_permissions_denied_by_the_test_are_refused_without_a_violation(
    sandbox: Sandbox, member: MakeMember
) -> None:
    async with Raw(sandbox) as bot:
        sandbox.forbid("art", Permission.SEND_MESSAGES)
        assert (await bot.call("POST", MESSAGES, {"content": "x"})).code == 50013
        sandbox.forbid("art")
        assert (await bot.call("GET", MESSAGES)).code == 50001
        assert (await bot.call("POST", MESSAGES, {"content": "x"})).status == 403
        sandbox.delete_channel("art")
        assert (await bot.call("POST", MESSAGES, {"content": "x"})).code == 10003
    assert [each["name"] for each in (await (await member(sandbox)).state())["channels"]] == [
        "general",
        "nsfw-art",
        "mods",
    ]


async def test_missing_objects_are_not_found(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        sent = await bot.call("POST", MESSAGES, {"content": "x"})
        elsewhere = f"/channels/{CHANNEL_IDS['general']}/messages/{sent.body['id']}"
        assert (await bot.call("GET", elsewhere)).code == 10008
        assert (await bot.call("PATCH", f"{MESSAGES}/1", {"content": "y"})).code == 10008
        assert (await bot.call("GET", "/channels/1")).code == 10003
        assert (await bot.call("GET", "/users/1")).status == 404


async def test_a_bucket_reports_its_remaining_requests_and_refuses_more(
    timed: Sandbox, clock: FakeClock
) -> None:
    async with Raw(timed) as bot:
        answers = [await bot.call("POST", MESSAGES, {"content": str(number)}) for number in range(6)]
        assert [answer.headers["X-RateLimit-Remaining"] for answer in answers[:5]] == [
            "4",
            "3",
            "2",
            "1",
            "0",
        ]
        refused = answers[5]
        assert (refused.status, refused.body["retry_after"], refused.body["global"]) == (429, 5.0, False)
        assert refused.headers["Via"]
        assert refused.headers["Retry-After"] == "5"
        assert len({answer.headers["X-RateLimit-Bucket"] for answer in answers}) == 1
        assert timed.violations == []
        clock.advance(4)
        assert (await bot.call("POST", MESSAGES, {"content": "too early"})).status == 429
        assert "before Retry-After was over" in timed.violations[0]
        clock.advance(1)
        assert (await bot.call("POST", MESSAGES, {"content": "in time"})).status == 200


async def test_a_process_that_died_told_its_successor_of_no_refusal(timed: Sandbox, clock: FakeClock) -> None:
    async with Raw(timed) as bot:
        line = await bot.identify()
        await line.event("READY")
        answers = [await bot.call("POST", MESSAGES, {"content": str(number)}) for number in range(6)]
        assert (answers[-1].status, timed.shards) == (429, {(0, 1)})

    async def gone() -> bool:
        return not timed.shards

    await until(gone)
    async with Raw(timed) as successor:
        clock.advance(2)
        assert (await successor.call("POST", MESSAGES, {"content": "unknowing"})).status == 429
        assert timed.violations == []
        clock.advance(2)
        assert (await successor.call("POST", MESSAGES, {"content": "knowing"})).status == 429
        assert "before Retry-After was over" in timed.violations[0]


async def test_the_global_limit_is_fifty_requests_a_second(timed: Sandbox) -> None:
    async with Raw(timed) as bot:
        paths = [
            "/users/@me",
            "/gateway/bot",
            "/applications/@me",
            "/oauth2/applications/@me",
            MESSAGES,
            f"/channels/{ART}",
        ]
        answers = [await bot.call("GET", path) for path in paths for _ in range(9)]
        assert [answer.status for answer in answers] == [200] * 50 + [429] * 4
        assert answers[-1].body["global"]
        assert answers[-1].headers["X-RateLimit-Scope"] == "global"


async def test_a_post_needs_a_message_and_the_tag_of_its_forum_and_the_forum_takes_no_message(
    lenient: Sandbox,
) -> None:
    forum = lenient.open_forum("gallery", "Painting", tag_required=True)
    threads = f"/channels/{forum}/threads"
    async with Raw(lenient) as bot:
        tag = (await bot.call("GET", f"/channels/{forum}")).body["available_tags"][0]["id"]
        post = {"name": "x", "message": {"content": "hello"}, "applied_tags": [tag]}
        refused = [
            (await bot.call("POST", threads, body)).code
            for body in (
                {**post, "message": None},
                {**post, "applied_tags": []},
                {**post, "applied_tags": ["1"]},
                {**post, "message": {"content": ""}},
            )
        ]
        assert refused == [50035, 40067, 10087, 50006]
        assert (await bot.call("POST", f"/channels/{forum}/messages", {"content": "x"})).code == 50008
        made = await bot.call("POST", threads, post)
        assert (made.status, made.body["parent_id"], made.body["message"]["id"]) == (
            201,
            str(forum),
            made.body["id"],
        )
        (first,) = (await bot.call("GET", f"/channels/{made.body['id']}/messages")).body
        assert first["content"] == "hello"
        listed = {channel["id"] for channel in (await bot.call("GET", f"/guilds/{GUILD_ID}/channels")).body}
        assert listed == {*CHANNEL_IDS.values(), str(forum)}


async def test_slow_answers_arrive_late(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        sandbox.misbehave(slow_ms=200)
        began = time.monotonic()
        assert (await bot.call("GET", "/users/@me")).status == 200
        assert time.monotonic() - began >= 0.2
