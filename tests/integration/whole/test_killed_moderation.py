"""A front kills itself by SIGKILL at a chosen write of a review, a round or a vote, and is started again.

The test opens the same database and does the work of a worker; the front is the shipped process.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np
import pytest
import pytest_asyncio
import sqlalchemy as sa
from deadly_front import DeadlyFront, Death, deadly_front
from evening import write_role
from evening_audit import real_violations
from results import shows_result
from serving import until
from tour import Message, custom_ids, text_of

from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import CHANNELS, GUILD_ID, PEOPLE
from bot.sandbox.rules import NONCE_SECONDS
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.moderation.policies import PolicyScope
from bot.store.rows.audit import Act, By
from bot.store.rows.sessions import Phase, Plan, TimerKind
from bot.store.tables.sessions import session_timers, session_votes
from sdjax_engine.images import encode_png
from sdjax_engine.request import Lane

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
MINA, RAVI, YUNA, OMAR = (person.id for person in PEOPLE[:4])
GENERAL, ART = CHANNELS[0].id, CHANNELS[1].id
BY = By(actor_id=MINA, guild_id=GUILD_ID)
PATIENCE = 60.0
GREY = np.full((64, 64, 3), 128, np.uint8)
LANE = Lane(model="painter", height=64, width=64, guided=True)


@dataclass
class Clock:
    """Discord's time, which the test can move on."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@dataclass(kw_only=True)
class Scene:
    """A front that is killed and started again, the store that it shares with the test, and members."""

    sandbox: Sandbox
    clock: Clock
    front: DeadlyFront
    store: Store
    artifacts: Artifacts
    mina: Member
    ravi: Member
    omar: Member

    async def paint(self) -> None:
        """Paint everything that waits, in grey."""
        while claims := await self.store.leases.claim("painter", limit=9, ttl=60.0):
            for claim in claims:
                png = encode_png(GREY, claim.request, extra={"job": claim.job_id})
                name = await self.artifacts.put(png, ".png")
                await self.store.leases.complete(claim, artifact=name, seconds=1.0)

    async def painted(self, member: Member, prompt: str, *, channel: str = "art") -> str:
        """Ask for a picture, and paint it; return the interaction."""
        asked = await member.imagine(prompt=prompt, channel=channel)
        await member.message_of(asked, lambda seen: prompt in text_of(seen), channel=channel)
        await self.paint()
        return asked

    async def held(self, member: Member, prompt: str) -> tuple[str, Message]:
        """Paint a picture that is held; return the interaction and the moderators' message."""
        asked = await self.painted(member, prompt)
        await member.message_of(asked, lambda seen: "waiting for moderators" in text_of(seen))
        return asked, await self.mina.wait_for_message(
            lambda seen: prompt in text_of(seen) and bool(acts_of(seen)), channel="general", timeout=PATIENCE
        )

    async def decided(self, message: Message, words: str) -> None:
        """Wait until the moderators' message says what was decided."""
        await self.mina.wait_for_message(
            lambda seen: seen["id"] == message["id"] and words in text_of(seen),
            channel="general",
            timeout=PATIENCE,
        )

    async def once(self, *words: str, channel: str) -> Message:
        """Return the only message of the channel with all these words, once it is there."""

        def mine(messages: list[Message]) -> list[Message]:
            return [each for each in messages if all(word in text_of(each) for word in words)]

        await self.ravi.wait_for_message(lambda seen: bool(mine([seen])), channel=channel, timeout=PATIENCE)
        (found,) = mine(await self.ravi.messages(channel))
        return found

    async def strike(self, session_id: str, kind: TimerKind) -> None:
        """Make a timer of a session due now."""
        which = (session_timers.c.session_id == session_id) & (session_timers.c.kind == kind.value)
        async with self.store.shared.database.write() as connection:
            await connection.execute(sa.update(session_timers).where(which).values(due_at=0.0))


async def ruled(store: Store, count: int) -> bool:
    """Whether so many reviews are decided."""
    entries = await store.moderation.entries(GUILD_ID, limit=99)
    return sum(each.act in (Act.APPROVE, Act.REJECT) for each in entries) == count


def acts_of(message: Message) -> dict[str, str]:
    """The buttons of a moderators' message by what they do."""
    return {each.split(":")[1]: each for each in custom_ids(message) if each.startswith("review:")}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    folder = tmp_path_factory.mktemp("killed")
    clock = Clock()
    async with Sandbox(clock=clock) as sandbox:
        role = write_role(folder, "front", sandbox, cache=folder / "cache")
        store = await Store.open(f"sqlite+aiosqlite:///{folder}/queue.sqlite3")
        await store.offers.announce("painter", lanes=[LANE], seats=1, ttl=3600.0)
        async with (
            deadly_front(role) as front,
            Member(sandbox.address, "Mina", channel="general") as mina,
            Member(sandbox.address, "Ravi") as ravi,
            Member(sandbox.address, "Omar") as omar,
        ):
            scene = Scene(
                sandbox=sandbox,
                clock=clock,
                front=front,
                store=store,
                artifacts=Artifacts(str(folder / "artifacts")),
                mina=mina,
                ravi=ravi,
                omar=omar,
            )
            try:
                yield scene
                assert "Traceback" not in front.logs()
                assert real_violations(sandbox.violations) == []
            finally:
                await store.close()


async def test_what_moderators_decided_before_a_kill_is_delivered_once_after_it(scene: Scene) -> None:
    mina, ravi, omar = scene.mina, scene.ravi, scene.omar
    await scene.store.policies.put(PolicyScope.CHANNEL, ART, {"review": True}, BY)
    await scene.store.reviews.set_channel(GENERAL, BY)
    await scene.front.live(Death(method="bot.store.moderation.reviews:Reviews.decide", call=2))
    star, about_star = await scene.held(ravi, "a star")
    moon, about_moon = await scene.held(ravi, "a moon")
    scene.sandbox.misbehave(rest_5xx=1000, on="/webhooks/")  # no result is delivered
    form = await mina.modal_of(await mina.press(about_moon, acts_of(about_moon)["reject"]))
    await mina.submit(form, reason="too round")
    await until(lambda: ruled(scene.store, 1))
    await mina.press(about_star, acts_of(about_star)["approve"])
    await scene.front.dead()
    scene.sandbox.misbehave(rest_5xx=0)
    await scene.front.live(Death(method="bot.delivery.result_outbox:Results.settle", after=False))
    await scene.front.dead()  # a result is posted, and not marked
    await scene.front.live(Death(method="bot.store.rows.restrictions:Moderation.block"))
    await scene.decided(about_star, "has approved it")
    await scene.decided(about_moon, "has rejected it")
    shown = await scene.once("a star", "seed", channel="art")
    rejected = await scene.once("a moon", "too round", channel="art")
    assert (shows_result(shown), len(shown["attachments"]), rejected["attachments"]) == (True, 1, [])
    heart, about_heart = await scene.held(omar, "a heart")
    form = await mina.modal_of(await mina.press(about_heart, acts_of(about_heart)["block"]))
    await mina.submit(form, reason="advertising")
    await scene.front.dead()
    await scene.front.live()
    refused = await omar.message_of(await omar.imagine(prompt="a leaf"))
    assert "advertising" in text_of(refused)
    assert await ruled(scene.store, 2)
    answered = [
        str((each.get("interaction_metadata") or {}).get("id")) for each in await ravi.messages("art")
    ]
    assert [answered.count(each) for each in (star, moon, heart)] == [1, 1, 1]
    await scene.front.kill()


async def test_a_killed_round_and_vote_end_once_and_count_each_vote_once(scene: Scene) -> None:
    ravi, store = scene.ravi, scene.store
    await store.policies.put(PolicyScope.CHANNEL, ART, {"review": None}, BY)
    plan = Plan(round_seconds=600.0, vote_seconds=600.0, session_seconds=7200.0, quota=2)
    session = await store.sessions.open(plan, BY, channel_id=GENERAL, locale="en-US")
    await scene.front.live(Death(method="bot.store.sessions.sessions:Sessions.act"))
    await scene.painted(ravi, "a boat", channel="general")
    await scene.once("a boat", "seed", channel="general")
    await scene.strike(session.id, TimerKind.ROUND)
    await scene.front.dead()
    assert (await store.sessions.get(session.id)).phase is Phase.COLLECTING
    await scene.front.live(Death(method="bot.store.sessions.posts:Posts.settle", after=False))
    await scene.front.dead()  # the ballot is posted, and not settled
    scene.clock.ahead = 2 * NONCE_SECONDS  # the nonce has expired: Discord would post it again
    await scene.front.live(Death(method="bot.store.sessions.boards:SessionShowing.vote"))
    ballot = await scene.once("Pictures of round 1", "a boat", channel="general")
    (own,) = (each for each in custom_ids(ballot) if each.startswith("vote:"))
    await scene.mina.press(ballot, own)
    await scene.front.dead()
    await scene.front.live(Death(method="bot.store.sessions.sessions:Sessions.act"))
    told = await scene.mina.message_of(await scene.mina.press(ballot, own), channel="general")
    assert "no. 1" in text_of(told)
    await scene.strike(session.id, TimerKind.VOTE)
    await scene.front.dead()
    assert (await store.sessions.get(session.id)).phase is Phase.RESTING
    await scene.front.live()
    results = await scene.once("Results of round 1", channel="general")
    assert "1 vote" in text_of(results)
    assert "1 person has voted." in text_of(results)
    await scene.once("The archive has 1 picture", channel="general")
    await scene.once("Group session", "the host begins the next one", channel="general")
    await scene.once("Pictures of round 1", channel="general")
    async with store.shared.database.read() as connection:
        assert await connection.scalar(sa.select(sa.func.count()).select_from(session_votes)) == 1
