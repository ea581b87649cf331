"""The desk: acts on timers that are due, and shows the boards of sessions that this front keeps.

All state is in rows, so a front that starts continues where another has stopped. Before a board is posted a
second time, it is searched for.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import discord

from bot.delivery.content import MessageContent
from bot.delivery.discord_requests import RateGuard
from bot.delivery.refusals import DeliveryDelayed, Refusal, Refused
from bot.domain.errors import StoreUnavailable, UserMistake
from bot.front.services.request import Services
from bot.front.sessions.board import board
from bot.front.sessions.couriers import Courier
from bot.front.sessions.posts import GONE, REFUSED_SECONDS, SessionPosts, renew_ballots
from bot.store.rows.sessions import GroupSession, Phase, Post
from bot.store.store import Store
from bot.texts.catalogue import Texts

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
BOARD_SECONDS = 3.0  # between two edits of a board, and between two looks at a ballot
LOOK_SECONDS = 60.0  # after which a board that stays the same is edited, to see whether it was deleted
KEPT_SECONDS = 30.0
WAIT_SECONDS = 15.0  # after an error that may pass
SHOWN_AT_ONCE = 50  # sessions


@dataclass(kw_only=True)
class _Shown:
    """What this front knows of a session: the board as last shown, and until when nothing is sent.

    `ballots` are the ballots as last shown, by the ids of their posts. All are edited again at
    `ballots_doubted_at`, because a late edit by the session's previous front may have replaced one.
    """

    content: MessageContent | None = None
    at: float = float("-inf")
    waits_until: float = float("-inf")
    looked_at: float = float("-inf")
    ballots: dict[int, MessageContent] = field(default_factory=dict)
    ballots_wait_until: float = float("-inf")
    ballots_doubted_at: float = float("inf")


class Desk:
    """Shows the sessions of one front, several at once."""

    def __init__(
        self,
        client: discord.Client,
        services: Callable[[], Services],
        *,
        rate_guard: RateGuard,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._services = services
        self._courier = Courier(client, rate_guard)
        self._clock = clock
        self._shown: dict[str, _Shown] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Work until cancelled. The next start repeats unfinished work."""
        try:
            while True:
                await self._tick()
                await asyncio.sleep(TICK_SECONDS)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _tick(self) -> None:
        services = self._services()
        try:
            await self._act_on_timers()
            kept = await services.store.showing.keep(services.front, ttl=KEPT_SECONDS)
        except StoreUnavailable as error:
            log.error("the group sessions cannot be read: %s", error)
            return
        doubted_at = self._clock() + 2 * KEPT_SECONDS
        self._shown = {
            session.id: self._shown.get(session.id) or _Shown(ballots_doubted_at=doubted_at)
            for session in kept
        }
        # With more sessions than are shown at once, each gets its turn.
        for session in sorted(kept, key=lambda each: self._shown[each.id].looked_at):
            if len(self._tasks) >= SHOWN_AT_ONCE:
                break
            shown = self._shown[session.id]
            if session.id not in self._tasks and shown.waits_until <= self._clock():
                shown.looked_at = self._clock()
                task = asyncio.create_task(self._show(session), name=f"group session {session.id}")
                self._tasks[session.id] = task
                task.add_done_callback(functools.partial(self._done, session.id))

    def posts(self, store: Store, *, front: str) -> SessionPosts:
        """Return the posts of the sessions that this front keeps, for an outbox."""
        return SessionPosts(store, self._services, self._courier, front=front, on_ballot=self._note_ballot)

    def _note_ballot(self, post: Post, content: MessageContent) -> None:
        """Note what a ballot shows that was sent, so that it is edited only where it would change."""
        if (shown := self._shown.get(post.session_id)) is not None:
            shown.ballots[post.id] = content

    def _done(self, session_id: str, _task: asyncio.Task[None]) -> None:
        self._tasks.pop(session_id, None)

    async def _act_on_timers(self) -> None:
        """Act on the timers that are due; an error affects its timer only, which stays due."""
        sessions = self._services().store.sessions
        for session_id, kind in await sessions.overdue():
            try:
                await sessions.act(session_id, kind)
            except StoreUnavailable:
                raise
            except Exception:
                log.exception("the timer %s of the group session %s could not be acted on", kind, session_id)

    async def _show(self, session: GroupSession) -> None:
        """Renew the board and the ballots of one session; an error affects this session only."""
        shown = self._shown[session.id]
        try:
            await self._show_all(session, shown)
        except (StoreUnavailable, UserMistake) as error:
            log.warning("the group session %s is not shown this time: %s", session.id, error)
        except DeliveryDelayed as error:
            shown.waits_until = self._clock() + max(error.seconds, WAIT_SECONDS)
            log.info("the group session %s is shown later: %s", session.id, error)
        except Refused as error:
            shown.waits_until = self._clock() + REFUSED_SECONDS
            await self._refused(session, error.refusal)
        except Exception:
            shown.waits_until = self._clock() + WAIT_SECONDS
            log.exception("the group session %s could not be shown", session.id)

    async def _show_all(self, session: GroupSession, shown: _Shown) -> None:
        store = self._services().store
        if await store.posts.is_due(session.id):  # people read the posts first
            return
        await self._renew_ballots(session, shown)
        renewed = await self._renew_board(session, shown)
        if session.phase is Phase.CLOSED and renewed and not await store.posts.unsettled(session.id):
            await store.showing.end(session)

    async def _renew_board(self, session: GroupSession, shown: _Shown) -> bool:
        """Post the board, or edit it where it would change; False where the last edit was a moment ago."""
        showing = self._services().store.showing
        if shown.content is not None and self._clock() - shown.at < BOARD_SECONDS:
            return False
        content = board(
            session,
            await showing.crowd(session),
            voters=await showing.voters(session.id, session.round),
            texts=Texts.for_locale(session.locale),
        )
        same = session.board_id is not None and content == shown.content
        if same and self._clock() - shown.at < LOOK_SECONDS:
            return True
        shown.at = self._clock()
        if session.board_id is None:
            message_id = await self._courier.post(session, content, mark=f"b{session.boards}")
            await showing.set_board(session, message_id)
        else:
            await self._courier.edit(session, session.board_id, content)
        shown.content = content
        return True

    async def _renew_ballots(self, session: GroupSession, shown: _Shown) -> None:
        """Edit the ballots that would change, and try it again later where Discord refuses."""
        if self._clock() < shown.ballots_wait_until:
            return
        shown.ballots_wait_until = self._clock() + BOARD_SECONDS
        if shown.ballots_doubted_at <= self._clock():
            shown.ballots_doubted_at = float("inf")
            shown.ballots.clear()
        try:
            await renew_ballots(self._services(), self._courier, session, shown.ballots)
        except DeliveryDelayed as error:  # no reason to delay the board as well
            shown.ballots_wait_until = self._clock() + max(error.seconds, WAIT_SECONDS)
            log.info("a ballot of the group session %s is shown later: %s", session.id, error)
        except Refused as error:
            if error.refusal in GONE:
                raise
            log.warning("a ballot of the group session %s is refused: %s", session.id, error.refusal)
            shown.ballots_wait_until = self._clock() + REFUSED_SECONDS

    async def _refused(self, session: GroupSession, refusal: Refusal) -> None:
        """Post a deleted board again, drop a session without a channel, and end a closed one."""
        store = self._services().store
        log.warning("the board of the group session %s is refused: %s", session.id, refusal)
        try:
            if refusal in GONE:
                await store.sessions.abandon(session.id)
            elif refusal is Refusal.MESSAGE_DELETED and session.phase is not Phase.CLOSED:
                known = self._shown.get(session.id, _Shown())
                self._shown[session.id] = _Shown(ballots=known.ballots)  # without waits: it is posted at once
                await store.showing.set_board(session, None)
            elif session.phase is Phase.CLOSED and not await store.posts.unsettled(session.id):
                await store.showing.end(session)  # its board stays as it is, in a locked thread for instance
        except (StoreUnavailable, UserMistake) as error:
            log.warning("the group session %s is not shown this time: %s", session.id, error)
