"""The verbs of the wall. They are those of the buttons in Discord, whose messages the fronts then change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

from aiohttp import web

from bot.delivery.review_message import ACCEPT, APPROVE, DECLINE, REJECT, SPOILER, file_in_question, given_in
from bot.domain.errors import MissingArtifact, ResultsUnavailable, UserMistake
from bot.domain.holds import MOST_REASON, Outcome
from bot.page.guard import Field, back, form_of, number_of
from bot.page.house import House
from bot.page.pictures import Pictures
from bot.page.rights import Reach, Right, Role, Viewer
from bot.page.wall import UNDONE, may_undo, server_of, tiles
from bot.store.rows.restrictions import Scope
from bot.store.rows.reviews import Kind, Review
from bot.texts.markup import tidy

OUTCOMES: Mapping[Kind, Mapping[str, Outcome]] = MappingProxyType(
    {
        Kind.HOLD: {APPROVE: Outcome.SHOWN, SPOILER: Outcome.SPOILER, REJECT: Outcome.REJECTED},
        Kind.APPEAL: {ACCEPT: Outcome.SHOWN, DECLINE: Outcome.DECLINED},
    }
)

Act = Callable[[web.Request, Viewer, Review], Awaitable[str]]


class Decisions:
    """Answers the forms of the wall."""

    def __init__(self, house: House, pictures: Pictures) -> None:
        self._house = house
        self._pictures = pictures

    async def next(self, request: web.Request, viewer: Viewer) -> web.Response:
        """Claim the next case and lead to it; to the wall where none is left."""
        after = number_of(str((await form_of(request)).get("after", ""))) or 0
        return back(await self._next(viewer, after))

    def act(self, act: Act) -> Callable[[web.Request, Viewer], Awaitable[web.Response]]:
        """Return what answers a form about one case; what the person must know is said on the case's page."""

        async def answer(request: web.Request, viewer: Viewer) -> web.Response:
            try:
                review = await self._review(request, viewer)
            except UserMistake:
                raise web.HTTPNotFound from None
            try:
                return back(await act(request, viewer, review))
            except UserMistake as mistake:
                return back(f"/wall/{review.id}?trouble={mistake.message_id}")

        return answer

    async def claim(self, _request: web.Request, viewer: Viewer, review: Review) -> str:
        """Claim a case."""
        await self._claim(viewer, review)
        return f"/wall/{review.id}"

    async def decide(self, request: web.Request, viewer: Viewer, review: Review) -> str:
        """Decide a case: all its pictures, or the marked ones in one way and the others in another."""
        form = await form_of(request)
        acts = OUTCOMES[Kind.APPEAL if review.kind is Kind.APPEAL else Kind.HOLD]
        chosen = acts.get(str(form.get("act", "")))
        if chosen is None:
            raise web.HTTPBadRequest(text="This is no form of this page.")
        await self._claim(viewer, review)
        outcome, but = chosen, dict[int, Outcome]()
        if review.kind is not Kind.APPEAL:
            others = acts.get(str(form.get("others", "")), Outcome.SHOWN)
            outcome, but = await self._by_picture(review, form.getall("tile", []), chosen, others)
        by = viewer.by(review.guild_id, tidy(str(form.get("reason", "")))[:MOST_REASON])
        await self._house.store.reviews.decide(review.id, outcome, by, own=viewer.owns, but=but)
        path = await self._next(viewer, review.id, guild_id=review.guild_id)
        return f"{path}?last={review.id}"

    async def undo(self, _request: web.Request, viewer: Viewer, review: Review) -> str:
        """Hold the pictures again about which the person has decided a moment ago."""
        if not may_undo(review, viewer.user_id, self._house.now):
            raise UserMistake("review_over")
        await self._house.store.reviews.undo(review, viewer.by(review.guild_id))
        return "/wall"

    async def block(self, request: web.Request, viewer: Viewer, review: Review) -> str:
        """Block the person of a case in the server."""
        reason = tidy(str((await form_of(request)).get("reason", "")))[:MOST_REASON]
        if review.user_id <= 0:
            raise web.HTTPNotFound
        if review.user_id == viewer.user_id:
            raise UserMistake("block_self")
        members = self._house.members
        person = await members.viewer(review.user_id, review.guild_id) if members else None
        if person is not None and person.role is not Role.MEMBER:
            raise UserMistake("block_moderator")
        scope = Scope(guild_id=review.guild_id, user_id=review.user_id)
        await self._house.store.moderation.block(scope, viewer.by(review.guild_id, reason))
        return f"/wall/{review.id}"

    async def picture(self, request: web.Request, viewer: Viewer) -> web.Response:
        """Return a picture of a case by its index, or one given for it by its field; raises HTTPNotFound."""
        try:
            review = await self._review(request, viewer)
            case = await self._house.store.review_messages.case(review.id, review.guild_id)
            names = {str(image.index): file_in_question(image, review.kind) for image in tiles(case)}
            names |= given_in(case)
            return await self._pictures.file(request, names.get(request.match_info["index"]))
        except (UserMistake, MissingArtifact, ResultsUnavailable):
            raise web.HTTPNotFound from None

    async def _review(self, request: web.Request, viewer: Viewer) -> Review:
        """Return the case of an address within the viewer's right; raises UserMistake `review_gone`."""
        everywhere = viewer.reach(Right.REVIEW) is Reach.ALL
        number = number_of(request.match_info["review"]) or 0
        return await self._house.store.reviews.get(number, None if everywhere else viewer.guild_id or 0)

    async def _claim(self, viewer: Viewer, review: Review) -> None:
        if review.user_id == viewer.user_id and not viewer.owns:
            raise UserMistake("review_own")
        await self._house.store.review_claims.claim(review.id, viewer.by(review.guild_id))

    async def _next(self, viewer: Viewer, after: int, *, guild_id: int | None = None) -> str:
        """Claim the next case after this one, and return the path to it."""
        claims = self._house.store.review_claims
        place = guild_id or viewer.guild_id or await server_of(self._house, {})
        if place is None:
            return "/wall"
        found = await claims.claim_next(viewer.by(place), after=after, own=viewer.owns)
        return "/wall" if found is None else f"/wall/{found.id}"

    async def _by_picture(
        self, review: Review, marked: Sequence[Field], chosen: Outcome, others: Outcome
    ) -> tuple[Outcome, dict[int, Outcome]]:
        """Return the mildest outcome, and the pictures that have another one.

        Without a mark, or with all pictures marked, `chosen` is the outcome of all.
        """
        case = await self._house.store.review_messages.case(review.id, review.guild_id)
        indices = [image.index for image in tiles(case)]
        marks = {index for index in indices if str(index) in {str(each) for each in marked}}
        if not marks or marks == set(indices) or chosen is others:
            return chosen, {}
        mildest = min(chosen, others, key=UNDONE.index)
        of_each = {index: chosen if index in marks else others for index in indices}
        return mildest, {index: each for index, each in of_each.items() if each is not mildest}
