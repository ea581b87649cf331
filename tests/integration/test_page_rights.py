"""Who may do what on the page: logins with Discord, and every route with every role, in two servers."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, make_mocked_request
from discord_spec import Documents
from page_place import ART, ELSEWHERE, HERE, IDS, MODS, Place, Time, placed
from recipes import origin, recipe
from yarl import URL

from bot.domain.channels import ChannelKind
from bot.domain.errors import DiscordUnavailable
from bot.domain.hashes import name_of
from bot.domain.holds import Cause, Hold
from bot.domain.jobs import Showing, State
from bot.domain.outbox import Outgoing
from bot.page.discord_api import CONNECT, READS, DiscordApi, Membership, opened
from bot.page.discord_login import BACK, EXCHANGES, STATE_SECONDS, DiscordLogin, LoginFailed
from bot.page.guard import Guard
from bot.page.house import House
from bot.page.members import FRESH_SECONDS, Members
from bot.page.server import MOST_OF_ONE, application
from bot.sandbox.permissions import Permission
from bot.store.moderation.prompt_rules import PromptRule
from bot.store.rows.audit import Act, By
from bot.store.rows.hashes import Hashes
from bot.web.connections import Connections

BLOCKED = 0x0F1E_2D3C_4B5A_6978
ROLES = ("operator", "manager", "moderator", "reader", "member", "nobody", "stranger")
LOGGED_IN = frozenset({"operator", "manager", "moderator", "reader", "member"})


@pytest.fixture
async def place(tmp_path: Path, documents: Documents | None) -> AsyncIterator[Place]:
    async with placed(tmp_path, documents) as place:
        yield place


async def log_in(place: Place, browser: aiohttp.ClientSession, member: int | str) -> aiohttp.ClientResponse:
    """Press “Log in with Discord”, choose the member on Discord's page, and come back."""
    async with browser.get(f"{place.url}/discord") as asked:
        assert asked.status == 200
        assert asked.url.path == "/oauth2/authorize"
        assert asked.url.query["scope"] == "identify"
        address = asked.url
    answer = await browser.post(address, data={"member": str(member)})
    await answer.read()
    return answer


async def test_a_moderator_logs_in_with_discord_and_sees_the_server(place: Place) -> None:
    browser = await place.browser()
    async with browser.get(f"{place.url}/queue") as entrance:
        assert entrance.status == 401
        assert "/discord" in await entrance.text()
    back = await log_in(place, browser, IDS["mina"])
    assert (back.status, back.url.path) == (200, "/discord/back")
    assert "Mina" in await back.text()
    async with browser.get(f"{place.url}/queue") as answer:
        text = await answer.text()
    assert answer.status == 200
    assert "The Studio" in text
    assert "Manager" in text


async def test_nothing_of_a_login_is_kept_but_the_hash_of_a_session(place: Place) -> None:
    back = await log_in(place, await place.browser(), IDS["mina"])
    code = back.url.query["code"]
    cookies = " ".join(back.headers.getall("Set-Cookie"))
    assert "SameSite=Strict" in cookies
    assert "HttpOnly" in cookies
    async with place.store.shared.database.read() as connection:
        tables = await connection.run_sync(lambda sync: sync.exec_driver_sql("SELECT * FROM logins").all())
    assert len(tables) == 1
    assert code not in str(tables)


@pytest.mark.parametrize("case", ["other browser", "twice", "forged", "none"])
async def test_a_login_belongs_to_the_browser_that_began_it_and_is_used_once(place: Place, case: str) -> None:
    browser = await place.browser()
    async with browser.get(f"{place.url}/discord") as asked:
        address = asked.url
    async with browser.post(address, data={"member": str(IDS["mina"])}, allow_redirects=False) as answer:
        back = URL(answer.headers["Location"])
    if case == "twice":
        async with browser.get(back) as answer:
            assert answer.status == 200
    if case == "forged":
        back = back.update_query(state="x" * 43)
    if case == "none":
        back = back.without_query_params("state")
    with_it = await place.browser() if case == "other browser" else browser
    async with with_it.get(back) as answer:
        assert answer.status == 401
        assert "begun in another browser" in await answer.text()


async def test_a_login_ends_after_ten_minutes(place: Place) -> None:
    assert place.house.discord is not None
    guard, time = Guard(place.house.config, Connections()), Time()
    login = DiscordLogin(place.house.discord, guard, place.url, clock=time)
    sent = (await login.begin(make_mocked_request("GET", "/discord"))).cookies["sdjax-state"].value
    time.now += STATE_SECONDS
    back = make_mocked_request(
        "GET", f"{BACK}?code=x&state={sent}", headers={"Cookie": f"sdjax-state={sent}"}
    )
    with pytest.raises(LoginFailed, match="state"):
        await login.end(back)


@pytest.mark.parametrize("member", ["", "7"])
async def test_who_is_not_let_in_by_discord_is_told_so(place: Place, member: str) -> None:
    back = await log_in(place, await place.browser(), member)
    assert back.status == 401
    assert "has not let you in" in await back.text()


async def test_a_code_that_discord_does_not_know_opens_nothing_and_is_tried_a_few_times(place: Place) -> None:
    said = []
    for _ in range(EXCHANGES + 1):
        browser = await place.browser()
        async with browser.get(f"{place.url}/discord", allow_redirects=False) as asked:
            state = URL(asked.headers["Location"]).query["state"]
        async with browser.get(f"{place.url}/discord/back?code=guess&state={state}") as answer:
            assert answer.status == 401
            said.append("Too many people" in await answer.text())
    assert said == [False] * EXCHANGES + [True]


async def test_without_discord_nothing_is_open_but_the_operators_link(place: Place) -> None:
    moderator, operator = await place.as_("moderator"), await place.browser(0)
    place.sandbox.misbehave(rest_5xx=100)
    for browser, status in ((moderator, 503), (operator, 200)):
        async with browser.get(f"{place.url}/queue") as answer:
            assert answer.status == status
    place.sandbox.misbehave(rest_5xx=0)


async def test_a_role_that_is_taken_away_ends_open_pages_within_a_minute(place: Place) -> None:
    moderator = await place.as_("moderator")
    job_id = await place.paint(1)
    async with moderator.get(f"{place.url}/live/audit") as stream, asyncio.timeout(20):
        assert stream.status == 200
        assert b"Audit log" in await stream.content.readany()
        place.sandbox.employ("ravi")
        place.time.now += FRESH_SECONDS
        read = b""
        while more := await stream.content.readany():
            read += more
    assert b"may not see this any more" in read
    async with moderator.get(f"{place.url}/audit") as answer:
        assert answer.status == 403
    async with moderator.get(f"{place.url}/jobs/{job_id}") as answer:
        assert answer.status == 404


async def test_an_open_page_that_connects_again_after_its_role_is_gone_is_emptied(place: Place) -> None:
    """Browsers show what they have, whatever the status of a stream is."""
    moderator, stranger = await place.as_("moderator"), await place.as_("stranger")
    place.sandbox.employ("ravi")
    for browser in (moderator, stranger):
        accepted = {"Accept": "text/html, text/event-stream"}
        async with browser.get(f"{place.url}/live/audit", headers=accepted) as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream")
            text = await answer.text()
        assert "may not see this any more" in text
        assert "Audit log" not in text


async def test_a_timeout_takes_a_moderators_rights(place: Place) -> None:
    moderator = await place.as_("moderator")
    async with moderator.get(f"{place.url}/audit") as answer:
        assert answer.status == 200
    place.sandbox.silence("ravi", 3600.0)
    place.time.now += FRESH_SECONDS
    async with moderator.get(f"{place.url}/audit") as answer:
        assert answer.status == 403


async def test_members_see_their_own_pictures_and_what_is_public_where_they_may_read(place: Place) -> None:
    place.sandbox.employ("ravi", Permission.VIEW_CHANNEL, Permission.READ_MESSAGE_HISTORY)
    browser = await place.browser(IDS["ravi"])
    mine = await place.paint(1, user_id=IDS["ravi"], guild_id=None, private=True)
    public = await place.paint(2)
    unseen = [
        await place.paint(3, private=True),
        await place.paint(4, channel_id=MODS),
        await place.paint(5, guild_id=ELSEWHERE),
        await place.paint(6, guild_id=None),
        await place.paint(7, channel_kind=ChannelKind.AGE_RESTRICTED),
        await place.paint(8, channel_id=99),  # a thread, of which it is not known who reads it
    ]
    for job_id in (mine, public, *unseen):
        async with browser.get(f"{place.url}/pictures/{job_id}/0") as answer:
            assert (answer.status == 200) == (job_id not in unseen), job_id
    for query, there in (("whose=me", {mine}), ("whose=server", {public}), (f"person={IDS['yuna']}", {mine})):
        async with browser.get(f"{place.url}/gallery?{query}&channels=1&public=&role=operator") as answer:
            text = await answer.text()
        assert {each for each in (mine, public, *unseen) if each in text} == there


async def test_moderators_see_no_private_picture_of_others(place: Place) -> None:
    browser = await place.as_("moderator")
    private, public = await place.paint(1, private=True), await place.paint(2)
    async with browser.get(f"{place.url}/gallery?whose=server&public=") as answer:
        text = await answer.text()
    assert public in text
    assert private not in text
    for path in (f"/jobs/{private}", f"/pictures/{private}/0"):
        async with browser.get(f"{place.url}{path}") as answer:
            assert answer.status == 404


async def test_a_moderators_act_has_the_moderators_name_in_the_log(place: Place) -> None:
    browser = await place.as_("moderator")
    job = await place.store.jobs.enqueue(recipe(), origin(1, guild_id=HERE, channel_id=ART, user_id=5))
    address = f"{place.url}/jobs/{job.id}/cancel"
    async with browser.post(address, headers={"Origin": place.url}) as answer:
        assert answer.status == 200
    (entry,) = await place.store.moderation.entries(HERE, limit=9)
    assert (entry.act, entry.actor_id, entry.subject_id) == (Act.CANCEL, IDS["ravi"], 5)


async def test_a_member_cancels_their_own_request_alone(place: Place) -> None:
    browser = await place.as_("member")
    for number, user_id in ((1, IDS["ravi"]), (2, IDS["yuna"])):
        whose = origin(number, guild_id=HERE, channel_id=ART, user_id=user_id)
        job = await place.store.jobs.enqueue(recipe(), whose)
        async with browser.post(f"{place.url}/jobs/{job.id}/cancel", headers={"Origin": place.url}) as answer:
            assert answer.status == (200 if number == 1 else 404)
        state = (await place.store.jobs.get(job.id)).state
        assert state is (State.CANCELLED if number == 1 else State.WAITING)


@pytest.mark.parametrize("guild_id", [ELSEWHERE, None])
async def test_a_manager_changes_the_order_of_no_other_server_and_of_no_direct_message(
    place: Place, guild_id: int | None
) -> None:
    """Not even with a request of their own: others wait for it."""
    browser, queue = await place.as_("manager"), place.store.queue
    ids = []
    for number, server in ((1, HERE), (2, guild_id)):
        whose = origin(number, guild_id=server, channel_id=ART, user_id=IDS["ravi"])
        ids.append((await place.store.jobs.enqueue(recipe(), whose)).id)
    here, there = ids
    for verb in ("pause", "advance", "resume"):
        for job_id in ids:
            address = f"{place.url}/jobs/{job_id}/{verb}"
            async with browser.post(address, headers={"Origin": place.url}) as answer:
                assert answer.status == (200 if job_id == here else 404), verb
            assert (await queue.attempts(job_id)).paused_alone == (job_id == here and verb != "resume")
    for job_id, path in ((here, here), (here, f"{here}?whose=me"), (there, f"{there}?whose=me")):
        async with browser.get(f"{place.url}/jobs/{path}") as answer:
            text = await answer.text()
        assert f"/jobs/{job_id}/cancel" in text
        for verb in ("advance", "pause"):
            assert (f"/jobs/{job_id}/{verb}" in text) == (job_id == here), path


async def test_readers_see_no_private_request_and_no_direct_message_of_others(place: Place) -> None:
    browser = await place.as_("reader")
    unseen = [
        await place.paint(1, private=True),
        await place.paint(2, private=True, guild_id=None),
        await place.paint(3, guild_id=None),
    ]
    public = await place.paint(4)
    async with browser.get(f"{place.url}/gallery?whose=server&public=") as answer:
        text = await answer.text()
    assert {each for each in (public, *unseen) if each in text} == {public}
    asked = [
        origin(number, guild_id=guild_id, private=private)
        for number, (guild_id, private) in enumerate(itertools.product((HERE, None), (False, True)))
    ]
    waiting = [(await place.store.jobs.enqueue(recipe(), each)).id for each in asked]
    async with browser.get(f"{place.url}/queue?public=") as answer:
        text = await answer.text()
    assert [each in text for each in waiting] == [True, False, False, False]
    for job_id in (public, *unseen, *waiting):
        paths = [f"/jobs/{job_id}?public=", f"/live/jobs/{job_id}", f"/jobs/{job_id}?whose=server"]
        for path in paths if job_id in waiting else [*paths, f"/pictures/{job_id}/0"]:
            async with browser.get(f"{place.url}{path}") as answer:
                assert answer.status == (200 if job_id in (public, waiting[0]) else 404), path


async def test_readers_see_a_request_whose_words_a_rule_holds_without_its_words(place: Place) -> None:
    reader, moderator = await place.as_("reader"), await place.as_("moderator")
    asked = origin(1, user_id=IDS["yuna"], guild_id=HERE, channel_id=ART)
    wanted = recipe(prompt="a knife", negative_prompt="a spoon")
    job = await place.store.jobs.enqueue(wanted, asked, hold=Hold(cause=Cause.RULE, rule="knives"))
    for browser, seen in ((reader, False), (moderator, True), (await place.browser(IDS["yuna"]), True)):
        async with browser.get(f"{place.url}/jobs/{job.id}") as answer:
            text = await answer.text()
        assert answer.status == 200
        assert ["a knife" in text, "a spoon" in text] == [seen, seen]


async def test_one_member_leaves_streams_to_others_and_operators_may_have_all(place: Place) -> None:
    member, operator = await place.as_("member"), await place.as_("operator")
    other, address = await place.browser(IDS["mina"]), f"{place.url}/live/queue"
    async with AsyncExitStack() as stack:
        for browser, count in ((member, MOST_OF_ONE), (operator, MOST_OF_ONE + 1)):
            for _ in range(count):
                assert (await stack.enter_async_context(browser.get(address))).status == 200
        for browser, status in ((member, 503), (other, 200)):
            assert (await stack.enter_async_context(browser.get(address))).status == status


@asynccontextmanager
async def answering(
    bodies: Mapping[str, bytes], *, status: int = 200
) -> AsyncIterator[tuple[DiscordApi, list[str]]]:
    """A Discord that answers paths with these ends so, others with an id; and the paths that were asked."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        found = (body for end, body in bodies.items() if request.path.endswith(end))
        return web.Response(body=next(found, b'{"id": "1"}'), status=status, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        address = str(server.make_url("/"))
        async with opened(api_url=address, site_url=address, token="a", client_secret="b") as api:
            yield api, asked


async def test_who_has_waited_for_discord_in_vain_waits_no_second_time() -> None:
    async with answering({}, status=418) as (api, asked):
        members = Members(api)
        waited = await asyncio.gather(*(members.viewer(5, HERE) for _ in range(9)), return_exceptions=True)
        assert {type(each) for each in waited} == {DiscordUnavailable}
        assert len(asked) == 1
        with pytest.raises(DiscordUnavailable):  # a later question is sent to Discord again
            await members.viewer(5, HERE)
        assert len(asked) == 2


TOKEN = {"token": b'{"access_token": "a"}'}
NO_ID = (b"{}", b"[]", b"null", b'{"id": 5}', b'{"id": "x"}', b'{"id": "-1"}', b'{"id": "%s"}' % (b"9" * 19))
MEMBER = '{"user": {"id": "2", "username": %s}, "roles": %s, "communication_disabled_until": %s}'
GUILD = '{"name": %s, "owner_id": %s, "roles": %s}'
NOT_DISCORDS = [
    *(("login_url", {"@me": body}) for body in NO_ID),
    *(("account", {**TOKEN, "/users/@me": body}) for body in NO_ID),
    *(("account", {"token": body}) for body in (b"[]", b"{}", b"<html>", b'{"access_token": "a\\r\\nb: c"}')),
    *(
        ("account", {**TOKEN, "/users/@me": b'{"id": "5", "username": %s}' % name})
        for name in (b"7", b'"\\ud800"')
    ),
    *(("servers", {"guilds": body}) for body in (b'{"a": 1}', b"{}", b"[1]", b'[{"id": "x", "name": "n"}]')),
    *(("servers", {"guilds": body}) for body in (b"[" * 100_000, b'[{"id": "1"}]', b"\xff", b"")),
    *(("server", {"guilds/1": body, "channels": b"[]"}) for body in (b"{}", b"[]", b"7")),
    *(
        ("server", {"guilds/1": (GUILD % values).encode(), "channels": channels})
        for values, channels in (
            (('"n"', "null", "[]"), b"[]"),
            (('"n"', '"1"', "{}"), b"[]"),
            (('"n"', '"1"', '[{"id": "1", "permissions": "many"}]'), b"[]"),
            (("null", '"1"', "[]"), b"[]"),
            (('"n"', '"1"', "[]"), b"7"),
            (('"n"', '"1"', "[]"), b'[{"id": "1", "permission_overwrites": [{"id": "1"}]}]'),
            (('"n"', '"1"', "[]"), b'[{"id": "1", "permission_overwrites": 7}]'),
        )
    ),
    *(("member", {"members/2": body}) for body in (b"{}", b"[]", b'{"user": 7, "roles": []}')),
    *(
        ("member", {"members/2": (MEMBER % values).encode()})
        for values in (
            ('"a"', "7", "null"),
            ('"a"', "[null]", "null"),
            ('"a"', "[]", '"yesterday"'),
            ('"a"', "[]", "7"),
            ("null", "[]", "null"),
        )
    ),
]


async def ask(api: DiscordApi, verb: str) -> object:
    asking = {
        "login_url": lambda: api.login_url(state="a", redirect_uri="b"),
        "account": lambda: api.account("a", redirect_uri="b"),
        "servers": api.servers,
        "server": lambda: api.server(1),
        "member": lambda: api.member(1, 2),
    }
    return await asking[verb]()


@pytest.mark.parametrize(("verb", "bodies"), NOT_DISCORDS)
async def test_an_answer_that_is_not_such_as_discords_is_an_outage(
    verb: str, bodies: Mapping[str, bytes]
) -> None:
    async with answering(bodies) as (api, _):
        with pytest.raises(DiscordUnavailable):
            await ask(api, verb)


async def test_messages_of_a_voice_channel_are_for_those_who_may_connect() -> None:
    everybody = [{"id": "1", "permissions": str(READS | CONNECT)}]
    closed = [{"id": "1", "allow": "0", "deny": str(CONNECT)}]
    channels = [
        {"id": str(number), "type": kind, "permission_overwrites": overwrites}
        for number, kind, overwrites in ((5, 0, closed), (6, 2, closed), (7, 13, closed), (8, 2, []))
    ]
    bodies = {
        "channels": json.dumps(channels).encode(),
        "guilds/1": (GUILD % ('"n"', '"2"', json.dumps(everybody))).encode(),
    }
    async with answering(bodies) as (api, _):
        server = await api.server(1)
    assert server is not None
    member = Membership(name="a", roles=())
    assert server.readable(3, member, now=0.0) == {5, 8}
    assert server.readable(2, member, now=0.0) == {5, 6, 7, 8}
    silent = replace(member, silent_until=9.0)
    assert server.readable(3, silent, now=0.0) == {5}


async def test_of_an_answer_without_end_only_a_part_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.page.discord_api.MOST_ANSWER", 10_000)
    for spaces in (9_000, 11_000):
        async with answering({"guilds": b" " * spaces + b"[]"}) as (api, _):
            if spaces < 10_000:
                assert await api.servers() == {}
            else:
                with pytest.raises(DiscordUnavailable):
                    await api.servers()


EVERYBODY = frozenset(ROLES)
IN_SERVER = frozenset({"operator", "manager", "moderator"})
OPERATIONS = frozenset({"operator", "reader"})
TABLE = {
    # route: who may, in the server that they look at | in another server
    "GET /static/{name}": (EVERYBODY, EVERYBODY),
    "GET /enter": (EVERYBODY, EVERYBODY),
    "POST /enter": (EVERYBODY, EVERYBODY),
    "GET /discord": (EVERYBODY, EVERYBODY),
    "GET /discord/back": (EVERYBODY, EVERYBODY),
    "POST /language": (EVERYBODY, EVERYBODY),
    "POST /leave": (EVERYBODY, EVERYBODY),
    "GET /servers": (LOGGED_IN, OPERATIONS),
    "POST /server": (LOGGED_IN, OPERATIONS),
    "GET /": (OPERATIONS, OPERATIONS),
    "GET /queue": (LOGGED_IN, OPERATIONS),
    "GET /gallery": (LOGGED_IN, OPERATIONS),
    "GET /gallery/compare": (LOGGED_IN, OPERATIONS),
    "GET /gallery/archive": (LOGGED_IN, OPERATIONS),
    "POST /gallery/{job}/star": (LOGGED_IN, OPERATIONS),
    "GET /workers": (OPERATIONS, OPERATIONS),
    "GET /failures": (OPERATIONS, OPERATIONS),
    "GET /deliveries": (OPERATIONS, OPERATIONS),
    "GET /audit": (LOGGED_IN - {"member"}, OPERATIONS),
    "GET /policies": (OPERATIONS | {"manager"}, OPERATIONS),
    "GET /configuration": ({"operator"}, {"operator"}),
    "GET /usage": (OPERATIONS, OPERATIONS),
    "GET /jobs/{job}": (LOGGED_IN - {"member"}, OPERATIONS),
    "POST /jobs/{job}/cancel": (IN_SERVER, {"operator"}),
    "POST /jobs/{job}/pause": ({"operator", "manager"}, {"operator"}),
    "POST /jobs/{job}/resume": ({"operator", "manager"}, {"operator"}),
    "POST /jobs/{job}/advance": ({"operator", "manager"}, {"operator"}),
    "POST /jobs/{job}/retry": ({"operator"}, {"operator"}),
    "POST /workers/drain": ({"operator"}, {"operator"}),
    "POST /failures/retry": ({"operator"}, {"operator"}),
    "POST /deliveries/{message}/send": ({"operator"}, {"operator"}),
    "GET /pictures/{job}/{index}": (LOGGED_IN, OPERATIONS),
    "GET /wall": (IN_SERVER, {"operator"}),
    "GET /wall/{review}": (IN_SERVER, {"operator"}),
    "GET /wall/{review}/pictures/{index}": (IN_SERVER, {"operator"}),
    "POST /wall/next": (IN_SERVER, {"operator"}),
    "POST /wall/{review}/claim": (IN_SERVER, {"operator"}),
    "POST /wall/{review}/decide": (IN_SERVER, {"operator"}),
    "POST /wall/{review}/block": (IN_SERVER, {"operator"}),
    "POST /wall/{review}/undo": (IN_SERVER, {"operator"}),
    "GET /rules": (IN_SERVER, {"operator"}),
    "POST /rules": (IN_SERVER, {"operator"}),
    "POST /rules/try": (IN_SERVER, {"operator"}),
    "POST /rules/remove": (IN_SERVER, {"operator"}),
    "GET /blocked": (IN_SERVER, {"operator"}),
    "GET /blocked/{name}": (IN_SERVER, {"operator"}),
    "POST /blocked/{name}/remove": (IN_SERVER, {"operator"}),
}
"""Streams (`/live…`) are open to those who may see their page."""
FORM = {"act": "approve", "name": "knives", "action": "hold", "terms": "knife"}
LOGINS = ("/enter", "/discord", "/discord/back")


def routes_of(house: House) -> list[tuple[str, str]]:
    """Every method and path that the page answers, as it is served."""
    app = application(house, Connections())
    found = [
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    ]
    return sorted(found)


@pytest.mark.parametrize("role", ROLES)
async def test_every_route_is_open_to_those_alone_who_have_its_right(place: Place, role: str) -> None:
    """The table has a row for each route, so a new route needs one too."""
    place.sandbox.employ("yuna", Permission.VIEW_CHANNEL, Permission.READ_MESSAGE_HISTORY)
    browser, wrong = await place.as_(role), []
    for number, (method, path) in enumerate(routes_of(place.house)):
        here, elsewhere = TABLE[f"{method} {path.removeprefix('/live') or '/'}"]
        named = str(HERE) if role == "operator" else ""  # who looks everywhere says where
        tries = [(HERE, named, here), (ELSEWHERE, str(ELSEWHERE), elsewhere)]
        if "{job}" in path or "{review}" in path:  # by its number alone
            tries.append((ELSEWHERE, "", elsewhere))
        for attempt, (guild_id, server, allowed) in enumerate(tries):
            address = await filled(place, path, 3 * number + attempt, guild_id)
            async with browser.request(
                method,
                f"{place.url}{address}",
                params={"server": server} if server else {},
                data=FORM if method == "POST" else None,
                headers={"Origin": place.url},
                allow_redirects=False,
            ) as answer:
                inside = answer.status in ((200, 303) if method == "POST" else (200,))
                if path in LOGINS:  # a stranger's attempt is answered, and fails
                    inside = answer.status in (200, 303, 401)
                if inside != (role in allowed):
                    wrong.append((method, path, guild_id == HERE, server, answer.status))
            if path == "/leave":
                browser = await place.as_(role)
    assert wrong == []


async def filled(place: Place, path: str, number: int, guild_id: int) -> str:
    """An address of this path, about something new in the server."""
    held, by = "{review}" in path, By(actor_id=7, guild_id=guild_id)
    showing, hashes = Showing.HOLD if held else Showing.SHOW, Hashes(result=BLOCKED + number)
    job_id = await place.paint(number + 1, showing, guild_id=guild_id, hashes=hashes)
    if path.startswith("/blocked"):
        await place.store.known.block(BLOCKED + number, by)
        return path.replace("{name}", name_of(BLOCKED + number))
    if path == "/rules/remove":
        await place.store.prompt_rules.put(PromptRule(name="knives", terms=("knife",)), by)
    found = path.replace("{job}", job_id).replace("{index}", "0").replace("{name}", "page.css")
    if "{message}" in path:
        found = found.replace("{message}", str(await due_message(place, job_id)))
    if held:
        reviews = await place.store.reviews.waiting(guild_id, limit=500)
        found = found.replace("{review}", str(next(each.id for each in reviews if each.job_id == job_id)))
    return found


async def due_message(place: Place, job_id: str) -> int:
    """The id of the message of a job, which is not sent yet."""
    messages = await place.store.messages.unsent(Outgoing.RESULT, limit=500)
    return next(message.id for message in messages if message.job_id == job_id)
