"""A person who has done everything that leaves a row or a file of theirs in the queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from personal_data import tables
from recipes import origin, recipe
from stores import TTL

from bot.domain.holds import Cause, Hold, Outcome
from bot.domain.jobs import Claim, Descent, Job, Notes, Origin, Parent, Showing
from bot.domain.quotas import Charge
from bot.files import Files
from bot.store import Store
from bot.store.library.styles import Style
from bot.store.library.wildcards import Wildcard
from bot.store.moderation.policies import PolicyScope
from bot.store.moderation.prompt_rules import PromptRule
from bot.store.people.preferences import Owner
from bot.store.people.preferences import Scope as OwnerScope
from bot.store.rows.audit import By
from bot.store.rows.device_time import Spent
from bot.store.rows.hashes import Hashes
from bot.store.rows.restrictions import Scope
from bot.store.rows.sessions import Plan
from sdjax_engine.request import PromptFacts

PERSON, OTHER, HERE, ART, SESSION = 424_242_424_242, 535_353_535_353, 21, 31, 32
NAME, WORD = "Uxmaliana", "quokka"
"""The person's name, and a word that is in each text that the person has written, or that is about them."""
HASH = 0xF00F_1234_5678_9ABC
SENT, MASK, PAINTED = b"sent " + WORD.encode(), b"mask " + WORD.encode(), b"painted "


class BusyPerson:
    """Does everything once, in `store` and `files`."""

    def __init__(self, store: Store, files: Files) -> None:
        self.store, self.files = store, files
        self._number = 0
        self.names: list[str] = []

    async def lives(self) -> None:
        """Do everything that leaves something of the person."""
        await self._paints()
        await self._is_in_sessions()
        await self._moderates()
        await self._asks_moderators()
        owner = Owner(scope=OwnerScope.ME, id=PERSON)
        await self.store.preferences.put(owner, {"negative": f"no {WORD}"})
        await self.store.logins.invite(PERSON)
        await self._is_waiting()

    def asks(self, user_id: int = PERSON, **values: Any) -> Origin:
        """Where the next request of a person comes from."""
        self._number += 1
        of_person = {"user_name": NAME, "interaction_token": f"token-{WORD}"}
        values |= of_person if user_id == PERSON else {"user_name": "Omar"}
        return origin(self._number, user_id=user_id, **values)

    async def painted(self, asker: Origin, showing: Showing = Showing.SHOW, **values: Any) -> Job:
        """A finished job with its file."""
        words = {"prompt": WORD} if asker.user_id == PERSON else {}
        how = {name: values.pop(name) for name in ("session_id", "hold") if name in values}
        charge = Charge(pictures=1, cost=1.0)
        await self.store.jobs.enqueue(recipe(**words, **values), asker, charge=charge, **how)
        [claim] = await self.store.leases.claim("worker", limit=1, ttl=TTL)
        return await self.end(claim, showing)

    async def end(self, claim: Claim, showing: Showing = Showing.SHOW) -> Job:
        """End a claimed image, with everything that is noted of it."""
        text = WORD if claim.request.prompt == WORD else "boat"
        name = await self.files.keep(PAINTED + str(claim.image_id).encode() + text.encode(), ".png")
        if text == WORD:
            self.names.append(name)
        return await self.store.leases.complete(
            claim,
            artifact=name,
            seconds=1.0,
            showing=showing,
            notes=Notes(prompt=PromptFacts(tokens=90, limit=75, cut=text)),
            hashes=Hashes(result=HASH if text == WORD else ~HASH & (2**64 - 1)),
            spent=Spent(accelerator="cpu", seconds=1.0),
        )

    async def _paints(self) -> None:
        sent = [await self.files.keep(data, ".png") for data in (SENT, MASK)]
        self.names += sent
        self.mine = await self.painted(self.asks(), init_image=sent[0], mask_image=sent[1])
        self.others = await self.painted(self.asks(OTHER))
        single = Parent(job_id=self.mine.id, descent=Descent.SINGLE, index=0)
        copy = await self.store.jobs.copy(self.mine.id, self.asks(OTHER, parent=single), index=0)
        published = Parent(job_id=copy.id, descent=Descent.PUBLICATION)
        copied = self.asks(OTHER, parent=published, channel_id=ART + 5)
        await self.store.jobs.copy(copy.id, copied)
        await self.store.favourites.add(PERSON, self.others.id)
        await self.store.favourites.add(OTHER, self.mine.id)

    async def _is_in_sessions(self) -> None:
        plan = Plan(
            theme=f"all {WORD}", quota=9, round_seconds=600.0, vote_seconds=300.0, session_seconds=3600.0
        )
        by = By(actor_id=PERSON, guild_id=HERE)
        session = await self.store.sessions.open(plan, by, channel_id=SESSION, locale="en-US")
        for user_id in (PERSON, OTHER):
            await self.painted(self.asks(user_id, channel_id=SESSION), session_id=session.id)
        for _ in range(2):  # the round, then the collection: the vote begins
            await self.store.sessions.next(session.id, by)
        entries = await self.store.showing.entries(session.id, 1)
        [of_other] = [entry.number for entry in entries if entry.user_id == OTHER]
        await self.store.showing.vote(session.id, 1, of_other, voter_id=PERSON)

    async def _moderates(self) -> None:
        """Act as a moderator, and be blocked by one."""
        about, by = By(actor_id=OTHER, guild_id=HERE, reason=f"too much {WORD}"), self._by()
        await self.store.moderation.block(Scope(guild_id=HERE, user_id=PERSON), about)
        await self.store.moderation.block(Scope(guild_id=HERE, user_id=9), by)
        await self.store.known.block(HASH, by)
        held = await self.painted(self.asks(OTHER), hold=Hold(cause=Cause.MODE))
        [review] = [
            each for each in await self.store.reviews.waiting(HERE, limit=9) if each.job_id == held.id
        ]
        await self.store.reviews.decide(review.id, Outcome.REJECTED, by)
        await self.painted(self.asks(OTHER), hold=Hold(cause=Cause.MODE))
        await self.store.review_claims.claim_next(by)
        rule = PromptRule(name=f"no {WORD}", terms=(WORD,), also=(WORD,))
        await self.store.prompt_rules.put(rule, by)
        await self.store.prompt_rules.remove(rule.name, by)
        await self.store.prompt_rules.put(rule, by)
        await self.store.policies.put(PolicyScope.SERVER, HERE, {"steps": 9}, by)
        style = Style(name=WORD, prompt=WORD, negative_prompt=WORD)
        await self.store.styles.put(style, By(actor_id=1, guild_id=HERE))
        await self.store.wildcards.put(Wildcard(name=WORD, entries=(WORD,)), By(actor_id=1, guild_id=HERE))

    def _by(self) -> By:
        return By(actor_id=PERSON, guild_id=HERE, reason=f"because of {WORD}")

    async def _asks_moderators(self) -> None:
        """Appeal, report, and be reported; moderators have read it all."""
        refused = {"rule": "knives", "weight": 1.0, "places": 1}
        asked = recipe(prompt=f"refused {WORD}")
        await self.store.appeals.note_refusal(asked, self.asks(), **refused)
        appealed = await self.store.appeals.note_refusal(asked, self.asks(), **refused)
        await self.store.appeals.appeal_refusal(appealed, PERSON, words=f"it is a harmless {WORD}")
        declined = await self.store.appeals.note_refusal(asked, self.asks(), **refused)
        await self.store.appeals.appeal_refusal(declined, PERSON)
        about = By(actor_id=OTHER, guild_id=HERE, reason=f"declined: {WORD}")
        await self.store.reviews.decide(declined, Outcome.DECLINED, about)
        withheld = await self.painted(self.asks(), Showing.WITHHOLD)
        await self.store.appeals.appeal_pictures(withheld.id, PERSON)
        await self.store.reports.add(self.others.id, PERSON, guild_id=HERE, reason=f"not a {WORD}")
        await self.store.reports.add(self.mine.id, OTHER, guild_id=HERE, reason="ugly")
        for number, due in enumerate(await self.store.review_messages.claim("front", limit=99), start=1):
            await self.store.review_messages.settle(due, message_id=number, channel_id=8)

    async def _is_waiting(self) -> None:
        """Have one image that is painted now, with a preview, and many that wait."""
        asked = replace(recipe(prompt=WORD), variants=1)
        await self.store.jobs.enqueue(asked, self.asks())
        [claim] = await self.store.leases.claim("worker", limit=1, ttl=TTL)
        await self.store.leases.heartbeat({claim: 3}, ttl=TTL, previews={claim: WORD.encode()})
        for _ in range(9):
            await self.store.jobs.enqueue(asked, self.asks())


async def traces(store: Store, *, names: list[str]) -> dict[str, set[str]]:
    """The columns of each table that hold the person's id, name, words, files or hash; by table."""
    found: dict[str, set[str]] = {}
    signs = (str(PERSON), NAME, WORD, *names)
    async with store.shared.database.read() as connection:
        for table in tables():
            for row in await connection.execute(sa.select(table)):
                for column, value in zip(table.columns, row, strict=True):
                    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
                    if any(sign in text for sign in signs) or _is_hash(value):
                        found.setdefault(table.name, set()).add(column.name)
    return found


def _is_hash(value: object) -> bool:
    return isinstance(value, int) and value % 2**64 == HASH
