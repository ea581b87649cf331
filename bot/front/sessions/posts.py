"""The posts of sessions: their outbox, and ballots, which are edited while a vote is under way."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from bot.delivery.content import MessageContent
from bot.delivery.outbox import Outbox
from bot.delivery.refusals import DeliveryDelayed, Refusal, Refused
from bot.delivery.uploads import FILE_LIMIT, SURE_LIMIT
from bot.domain.errors import DeliveryRefused, MissingArtifact, PictureUnsigned, StoreUnavailable, UserMistake
from bot.front.results.contact_sheet import contact_sheet
from bot.front.services.request import Services
from bot.front.sessions.board import left_out
from bot.front.sessions.couriers import Courier, File
from bot.front.sessions.pages import announcement, mark_of, results, sheet, winners
from bot.sessions.archive import DOCUMENT, Packer, document, file_name
from bot.sessions.results import page_of
from bot.store.rows.sessions import GroupSession, Phase, Post, PostKind
from bot.store.sessions.boards import Entry
from bot.store.sessions.posts import SENT, DuePost
from bot.store.store import Store
from bot.texts.catalogue import Texts

LIMITS = (FILE_LIMIT, *(SURE_LIMIT // part for part in (1, 2, 4, 8)))
"""Bytes of an archive's files, tried in order: the limit of every server, and less if Discord refuses it."""


MAX_REFUSALS = 12  # in three quarters of an hour
REFUSED_SECONDS = 60.0
LOST_RIGHTS = frozenset({Refusal.NO_ACCESS, Refusal.NO_PERMISSION, Refusal.THREAD_ARCHIVED})
GONE = frozenset({Refusal.CHANNEL_DELETED, Refusal.SERVER_DELETED})


@dataclass(frozen=True, kw_only=True)
class Posted:
    """A post that was sent; `ballot` is the content of a ballot that was not sent before."""

    ballot: MessageContent | None = None
    outcome: str = SENT


class SessionPosts(Outbox[DuePost, Posted]):
    """Sends the due posts of the sessions that a front keeps; `on_ballot` is told of each ballot."""

    name = "a message of the group session {due.session.id}"
    at_once = 50  # sessions

    def __init__(
        self,
        store: Store,
        services: Callable[[], Services],
        courier: Courier,
        *,
        front: str,
        on_ballot: Callable[[Post, MessageContent], None],
    ) -> None:
        super().__init__(store.posts, store.wake_ups.posts, front=front, clock=store.clock)
        self._store = store
        self._services = services
        self._courier = courier
        self._on_ballot = on_ballot

    async def send(self, due: DuePost) -> Posted:
        """Send the post, unless it was sent already; wait for rights that the bot has lost."""
        sending = {
            PostKind.SHEET: _send_sheet,
            PostKind.CLOSED_BALLOT: _close_ballot,
            PostKind.RESULTS: _send_results,
            PostKind.ARCHIVE: _send_archive,
        }
        try:
            ballot = await sending.get(due.post.kind, _announce)(self._services(), self._courier, due)
        except Refused as error:
            if error.refusal in GONE:
                with suppress(UserMistake):  # the session was deleted meanwhile
                    await self._store.sessions.abandon(due.session.id)
            waits = error.refusal in LOST_RIGHTS and due.post.kind is not PostKind.CLOSED_BALLOT
            if waits and due.attempts < MAX_REFUSALS:
                raise DeliveryDelayed(error.refusal, seconds=REFUSED_SECONDS) from None
            raise DeliveryRefused(error.refusal) from None
        return Posted(ballot=ballot)

    async def settle(self, due: DuePost, outcome: str, sent: Posted | None) -> None:
        """Store how the post ended."""
        if sent is not None and sent.ballot is not None:
            self._on_ballot(due.post, sent.ballot)
        await self._store.posts.settle(due, outcome=outcome)


async def _send_sheet(services: Services, courier: Courier, due: DuePost) -> MessageContent | None:
    session, post = due.session, due.post
    pictures = await pictures_of(services, session, post)
    content = pictures.sheet(session, post)
    files = await draw(services, content, pictures, post)
    await courier.post(session, content, mark=mark_of(post), files=files, again=due.tried_before)
    return content if post.ballot and not due.tried_before else None


async def _close_ballot(services: Services, courier: Courier, due: DuePost) -> None:
    """Take the buttons of the vote from a sheet. Its picture is drawn again, without those withheld since."""
    session, posted = due.session, replace(due.post, kind=PostKind.SHEET, ballot=False)
    pictures = await pictures_of(services, session, posted)
    content = pictures.sheet(session, posted)
    files = await draw(services, content, pictures, posted)
    await courier.edit_posted(session, content, mark=mark_of(posted), files=files)


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """The pictures of a round, or of a session, for their sheets; `unseen` and `late` as in `Crowd`."""

    entries: Sequence[Entry]
    unseen: int
    late: int

    def sheet(self, session: GroupSession, post: Post) -> MessageContent:
        """Return the content of a page."""
        texts = Texts.for_locale(session.locale)
        return sheet(session, post, self.entries, unseen=self.unseen, late=self.late, texts=texts)


async def pictures_of(services: Services, session: GroupSession, post: Post) -> Pictures:
    """Return the pictures as they are now; each page of the same round has the same."""
    showing = services.store.showing
    return Pictures(
        entries=await showing.entries(session.id, post.round),
        unseen=await showing.unseen(session.id, post.round),
        late=await showing.late(session) if post.ballot else 0,
    )


async def draw(services: Services, content: MessageContent, pictures: Pictures, post: Post) -> Sequence[File]:
    """Return the file of a sheet's picture; none for a sheet without pictures."""
    if not content.pictures:
        return []
    here = page_of(pictures.entries, post.page, whole=not post.round)
    shown = [entry for _, entry in here]
    picture = await _picture(services, shown, first=here[0][0], named=not post.ballot)
    return [(f"{content.pictures[0].stem}.jpg", picture)]


async def _send_results(services: Services, courier: Courier, due: DuePost) -> None:
    session, post, showing = due.session, due.post, services.store.showing
    texts = Texts.for_locale(session.locale)
    entries = await showing.entries(session.id, post.round)
    voters = await showing.voters(session.id, post.round)
    content = results(session, post, entries, voters=voters, texts=texts)
    files: list[File] = []
    if content.pictures:
        picture = await _picture(services, winners(entries), first=None)
        files = [(f"{content.pictures[0].stem}.jpg", picture)]
    again = due.tried_before
    await courier.post(session, content, mark=mark_of(post), files=files, again=again, telling=True)


async def _announce(services: Services, courier: Courier, due: DuePost) -> None:
    session, post = due.session, due.post
    entries = await services.store.showing.entries(session.id, 0) if post.kind is PostKind.END else []
    content = announcement(session, post, Texts.for_locale(session.locale), entries=entries)
    await courier.post(session, content, mark=mark_of(post), again=due.tried_before)


async def _picture(
    services: Services, entries: Sequence[Entry | None], *, first: int | None, named: bool = True
) -> bytes:
    """Return a contact sheet, if `named` with names; a picture that is gone or not shown is an empty tile."""
    files = [None if entry is None else await _file(services, entry) for entry in entries]
    names = [
        entry.user_name if named and entry is not None and entry.artifact is not None else ""
        for entry in entries
    ]
    made = functools.partial(contact_sheet, files, services.signing, first=first, names=names)
    return await _marked(services, made)


async def _marked(services: Services, make: Callable[[], bytes]) -> bytes:
    """Return the file; a file that must be signed and cannot be is posted later."""
    try:
        return await services.fitting.run(make)
    except PictureUnsigned as error:
        raise DeliveryDelayed(str(error)) from error


async def _file(services: Services, entry: Entry) -> bytes | None:
    if entry.artifact is None:
        return None
    try:
        return await services.artifacts.get(entry.artifact)
    except MissingArtifact:
        return None
    except StoreUnavailable as error:
        raise DeliveryDelayed(str(error)) from error


async def _send_archive(services: Services, courier: Courier, due: DuePost) -> None:
    """Send the archive, with smaller files where Discord refuses the size."""
    for limit in LIMITS:
        try:
            await _send_files(services, courier, due, limit=limit)
            return
        except Refused as error:
            if error.refusal is not Refusal.TOO_LARGE or limit == LIMITS[-1]:
                raise


async def _send_files(services: Services, courier: Courier, due: DuePost, *, limit: int) -> None:
    session, post, showing = due.session, due.post, services.store.showing
    entries = await showing.entries(session.id, post.round)
    unseen = await showing.unseen(session.id, post.round)
    sending = _Sending(courier, due, suffix=f"-{LIMITS.index(limit)}" if limit != LIMITS[0] else "")
    packer, run = Packer(limit), services.fitting.run
    packer.add(DOCUMENT, await run(document, session, entries, unseen=unseen))
    missing, named = 0, [entry for entry in entries if not entry.withheld]
    for entry in named:
        data = await _file(services, entry)
        if data is not None:
            data = await _marked(services, functools.partial(services.signing.marked, data))
        if data is None or not packer.fits(data):
            missing += 1
        elif full := await run(packer.add, file_name(entry), data):
            await sending.send(full)
    last = _counted(len(named) - missing, missing, unseen, session)
    await sending.send(await run(packer.take), last=last)


def _counted(packed: int, missing: int, unseen: int, session: GroupSession) -> str:
    texts = Texts.for_locale(session.locale)
    said = [
        texts.ngettext(
            "The archive has {count} picture, with its recipe.",
            "The archive has {count} pictures, with their recipes.",
            packed,
        )
    ]
    if missing:
        said.append(
            texts.ngettext(
                "{count} picture is gone or too large, and is left out.",
                "{count} pictures are gone or too large, and are left out.",
                missing,
            )
        )
    if unseen:
        said.append(left_out(unseen, texts))
    return " ".join(said)


class _Sending:
    """Sends the files of one archive in order."""

    def __init__(self, courier: Courier, due: DuePost, *, suffix: str) -> None:
        self._courier = courier
        self._session = due.session
        self._post = due.post
        self._again = due.tried_before
        self._suffix = suffix
        self._number = 0

    async def send(self, data: bytes, *, last: str = "") -> None:
        """Send the next file, unless it is there."""
        self._number += 1
        texts = Texts.for_locale(self._session.locale)
        round_ = f"-round-{self._post.round}" if self._post.round else ""
        name = f"session-{self._session.id}{round_}-{self._number}{self._suffix}.zip"
        text = last or texts.gettext("The archive, file {number}", number=self._number)
        await self._courier.post_file(
            self._session,
            text,
            (name, data),
            mark=f"{mark_of(self._post)}{self._number}{self._suffix}",
            again=self._again,
        )


async def renew_ballots(
    services: Services, courier: Courier, session: GroupSession, shown: dict[int, MessageContent]
) -> None:
    """Edit each ballot that would differ from its content in `shown`, by the id of its post.

    A ballot that is not in `shown` is edited once. Raises Refused, DeliveryDelayed and StoreUnavailable.
    """
    if session.phase is Phase.VOTING:
        # After the end of the vote, a ballot that has lost its buttons must not get them back.
        session = await services.store.sessions.get(session.id)
    if session.phase is not Phase.VOTING:
        shown.clear()
        return
    posts = await services.store.posts.ballots(session)
    if not posts:
        return
    pictures = await pictures_of(services, session, posts[0])
    for post in posts:
        content = pictures.sheet(session, post)
        if content != shown.get(post.id):
            files = await draw(services, content, pictures, post)
            await courier.edit_posted(session, content, mark=mark_of(post), files=files)
            shown[post.id] = content
