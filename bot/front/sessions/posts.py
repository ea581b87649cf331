"""The posts of a session, each sent once: sheets, which lose their ballot later, results and archives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bot.delivery.content import MessageContent
from bot.delivery.refusals import DeliveryDelayed, Refusal, Refused
from bot.delivery.uploads import FILE_LIMIT, SURE_LIMIT
from bot.domain.errors import MissingArtifact, PictureUnsigned, StoreUnavailable
from bot.front.results.contact_sheet import contact_sheet
from bot.front.services.services import Services
from bot.front.sessions.board import left_out
from bot.front.sessions.couriers import Courier, File
from bot.front.sessions.pages import announcement, mark_of, results, sheet, winners
from bot.sessions.archive import DOCUMENT, Packer, document, file_name
from bot.sessions.results import page_of
from bot.store.rows.sessions import GroupSession, Post, PostKind
from bot.store.sessions.boards import Entry
from bot.texts.catalogue import Texts

LIMITS = (FILE_LIMIT, *(SURE_LIMIT // part for part in (1, 2, 4, 8)))
"""Bytes of an archive's files, tried in order: the limit of every server, and less if Discord refuses it."""


async def send_post(
    services: Services, courier: Courier, session: GroupSession, post: Post
) -> MessageContent | None:
    """Send the post, unless it was sent already; return the content of a sheet that was not sent before.

    Raises Refused, DeliveryDelayed and StoreUnavailable.
    """
    if post.kind is PostKind.SHEET:
        return await _send_sheet(services, courier, session, post)
    sending = {
        PostKind.CLOSED_BALLOT: _close_ballot,
        PostKind.RESULTS: _send_results,
        PostKind.ARCHIVE: _send_archive,
    }
    await sending.get(post.kind, _announce)(services, courier, session, post)
    return None


async def _send_sheet(
    services: Services, courier: Courier, session: GroupSession, post: Post
) -> MessageContent | None:
    pictures = await pictures_of(services, session, post)
    content = pictures.sheet(session, post)
    files = await draw(services, content, pictures, post)
    again = post.attempts > 0
    await courier.post(session, content, mark=mark_of(post), files=files, again=again)
    return None if again else content


async def _close_ballot(services: Services, courier: Courier, session: GroupSession, post: Post) -> None:
    """Take the buttons of the vote from a sheet. Its picture is drawn again, without those withheld since."""
    posted = replace(post, kind=PostKind.SHEET, ballot=False)
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


async def _send_results(services: Services, courier: Courier, session: GroupSession, post: Post) -> None:
    showing, texts = services.store.showing, Texts.for_locale(session.locale)
    entries = await showing.entries(session.id, post.round)
    voters = await showing.voters(session.id, post.round)
    content = results(session, post, entries, voters=voters, texts=texts)
    files: list[File] = []
    if content.pictures:
        picture = await _picture(services, winners(entries), first=None)
        files = [(f"{content.pictures[0].stem}.jpg", picture)]
    again = post.attempts > 0
    await courier.post(session, content, mark=mark_of(post), files=files, again=again, telling=True)


async def _announce(services: Services, courier: Courier, session: GroupSession, post: Post) -> None:
    entries = await services.store.showing.entries(session.id, 0) if post.kind is PostKind.END else []
    content = announcement(session, post, Texts.for_locale(session.locale), entries=entries)
    await courier.post(session, content, mark=mark_of(post), again=post.attempts > 0)


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


async def _send_archive(services: Services, courier: Courier, session: GroupSession, post: Post) -> None:
    """Send the archive, with smaller files where Discord refuses the size."""
    for limit in LIMITS:
        try:
            await _send_files(services, courier, session, post, limit=limit)
            return
        except Refused as error:
            if error.refusal is not Refusal.TOO_LARGE or limit == LIMITS[-1]:
                raise


async def _send_files(
    services: Services, courier: Courier, session: GroupSession, post: Post, *, limit: int
) -> None:
    showing = services.store.showing
    entries = await showing.entries(session.id, post.round)
    unseen = await showing.unseen(session.id, post.round)
    sending = _Sending(courier, session, post, suffix=f"-{LIMITS.index(limit)}" if limit != LIMITS[0] else "")
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

    def __init__(self, courier: Courier, session: GroupSession, post: Post, *, suffix: str) -> None:
        self._courier = courier
        self._session = session
        self._post = post
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
            again=self._post.attempts > 0,
        )
