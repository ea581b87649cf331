"""The wall of the page over HTTP: what a case shows, and what its forms change."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import PIL.Image
import pytest
from page_place import ART, HERE, IDS, MODERATES, Place, placed
from recipes import origin, recipe

from bot.domain.hashes import name_of
from bot.domain.holds import Cause, Hold, Outcome
from bot.domain.jobs import Showing
from bot.page.wall import UNDO_SECONDS
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.moderation.review_claims import CLAIM_SECONDS
from bot.store.rows.audit import Act, By
from bot.store.rows.hashes import Hashes
from bot.store.rows.reviews import Kind, Review

BY = By(actor_id=IDS["mina"], guild_id=HERE)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with placed(tmp_path) as place:
        yield place


@pytest.fixture
async def mina(place: Place) -> aiohttp.ClientSession:
    return await place.browser(IDS["mina"])


async def held(place: Place, number: int = 1, **whose: Any) -> Review:
    job_id = await place.paint(number, Showing.HOLD, **whose)
    return next(each for each in await place.store.reviews.waiting(HERE, limit=99) if each.job_id == job_id)


async def post(browser: aiohttp.ClientSession, place: Place, path: str, **form: Any) -> tuple[str, str]:
    """Send a form, and return where it leads, and the text there."""
    async with browser.post(f"{place.url}{path}", data=form, headers={"Origin": place.url}) as answer:
        return str(answer.url.relative()), await answer.text()


async def shown(browser: aiohttp.ClientSession, place: Place, path: str) -> str:
    async with browser.get(f"{place.url}{path}") as answer:
        assert answer.status == 200
        return await answer.text()


async def test_a_case_shows_the_prompt_the_record_and_similar_pictures(
    place: Place, mina: aiohttp.ClientSession
) -> None:
    store = place.store
    for number, outcome in ((1, Outcome.REJECTED), (2, Outcome.REJECTED)):
        await store.reviews.decide((await held(place, number)).id, outcome, BY)
    alike = []
    for number, showing in ((3, Showing.SHOW), (4, Showing.HOLD)):
        whose = {"user_id": IDS["yuna"], "guild_id": HERE, "channel_id": ART}
        job = await store.jobs.enqueue(recipe(prompt=f"<b>{number}</b>"), origin(number, **whose))
        (claim,) = await store.leases.claim("one", limit=1, ttl=60.0)
        hashes = Hashes(result=0x0F1E2D3C4B5A6978 ^ number)
        await store.leases.complete(
            claim, artifact=f"aa/{number}.png", seconds=1.0, showing=showing, hashes=hashes
        )
        alike.append(job.id)
    (review,) = await store.reviews.waiting(HERE, limit=9)
    text = await shown(mina, place, f"/wall/{review.id}")
    assert "&lt;b&gt;4&lt;/b&gt;" in text
    assert "rejected: 2" in text
    assert alike[0] in text
    assert f"/wall/{review.id}/pictures/0" not in text  # nobody has claimed it
    await post(mina, place, f"/wall/{review.id}/claim")
    assert f"/wall/{review.id}/pictures/0" in await shown(mina, place, f"/wall/{review.id}")


async def test_held_pictures_are_shown_on_the_wall_alone(place: Place, mina: aiohttp.ClientSession) -> None:
    review = await held(place)
    async with mina.get(f"{place.url}/wall/{review.id}/pictures/0") as answer:
        assert (answer.status, answer.content_type) == (200, "image/png")
    for path in (f"/pictures/{review.job_id}/0", f"/wall/{review.id}/pictures/1", "/wall/99/pictures/0"):
        async with mina.get(f"{place.url}{path}") as answer:
            assert answer.status == 404
    await place.store.reviews.decide(review.id, Outcome.SHOWN, BY)
    async with mina.get(f"{place.url}/wall/{review.id}/pictures/0") as answer:
        assert answer.status == 404


async def test_what_was_given_is_shown_beside_the_pictures_until_a_decision(
    place: Place, mina: aiohttp.ClientSession
) -> None:
    file = io.BytesIO()
    PIL.Image.new("RGB", (30, 20), "navy").save(file, "PNG")
    photograph = await place.house.artifacts.put(file.getvalue(), ".png")
    review = await held(place, asked={"init_image": photograph, "mask_image": photograph})
    path = f"/wall/{review.id}/pictures/init_image"
    assert path not in await shown(mina, place, f"/wall/{review.id}")  # nobody has claimed it
    await post(mina, place, f"/wall/{review.id}/claim")
    text = await shown(mina, place, f"/wall/{review.id}")
    assert (path in text, "What the member gave" in text, "pictures/mask_image" in text) == (
        True,
        True,
        False,
    )
    async with mina.get(f"{place.url}{path}") as answer:
        assert (answer.status, await answer.read()) == (200, file.getvalue())
    async with (await place.as_("member")).get(f"{place.url}{path}") as answer:
        assert answer.status in (403, 404)
    await place.store.reviews.decide(review.id, Outcome.SHOWN, BY)
    async with mina.get(f"{place.url}{path}") as answer:
        assert answer.status == 404


async def test_a_moderator_decides_no_case_that_another_has_or_that_is_their_own(
    place: Place, mina: aiohttp.ClientSession
) -> None:
    moderator = await place.as_("moderator")
    review, own = await held(place), await held(place, 2, user_id=IDS["ravi"])
    await post(mina, place, f"/wall/{review.id}/claim")
    path, text = await post(moderator, place, f"/wall/{review.id}/decide", act="approve")
    assert path == f"/wall/{review.id}?trouble=review_claimed"
    assert "take the next one" in text
    path, text = await post(moderator, place, f"/wall/{own.id}/decide", act="approve")
    assert "another moderator or the owner" in text
    assert len(await place.store.reviews.waiting(HERE, limit=9)) == 2
    await place.store.reviews.decide(review.id, Outcome.SHOWN, BY)
    path, text = await post(moderator, place, f"/wall/{review.id}/decide", act="reject")
    assert "decided already" in text
    assert (await place.store.reviews.get(review.id, HERE)).outcome is Outcome.SHOWN


async def test_a_case_whose_claim_is_over_is_free_for_the_next(
    place: Place, mina: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    review, moderator = await held(place), await place.as_("moderator")
    monkeypatch.setattr("bot.store.moderation.review_claims.CLAIM_SECONDS", -CLAIM_SECONDS)
    await post(mina, place, f"/wall/{review.id}/claim")
    monkeypatch.undo()
    path, _ = await post(moderator, place, "/wall/next")
    assert path == f"/wall/{review.id}"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"act": "approve"}, "show show show"),
        ({"act": "reject"}, "withhold withhold withhold"),
        ({"act": "reject", "tile": ["1"]}, "show withhold show"),
        ({"act": "reject", "tile": ["0", "2"], "others": "spoiler"}, "withhold spoiler withhold"),
        ({"act": "approve", "tile": ["1"], "others": "reject"}, "withhold show withhold"),
        ({"act": "reject", "tile": ["0", "1", "2"]}, "withhold withhold withhold"),
        ({"act": "reject", "tile": ["7", "x", "-1"]}, "withhold withhold withhold"),
        ({"act": "reject", "tile": ["1"], "others": "nothing"}, "show withhold show"),
    ],
)
async def test_a_decision_is_about_the_marked_pictures_and_another_about_the_rest(
    place: Place, mina: aiohttp.ClientSession, form: dict[str, Any], expected: str
) -> None:
    review = await held(place, variants=3)
    await post(mina, place, f"/wall/{review.id}/decide", **form)
    job = await place.store.jobs.get(review.job_id or "")
    assert " ".join(image.showing.value for image in job.images) == expected


@pytest.mark.parametrize("act", ["", "accept", "withdraw"])
async def test_an_act_that_a_case_does_not_have_is_refused(
    place: Place, mina: aiohttp.ClientSession, act: str
) -> None:
    review = await held(place)
    address, headers = f"{place.url}/wall/{review.id}/decide", {"Origin": place.url}
    async with mina.post(address, data={"act": act}, headers=headers) as answer:
        assert answer.status == 400
    assert len(await place.store.reviews.waiting(HERE, limit=9)) == 1


async def test_an_appeal_shows_the_persons_words_and_paints_an_accepted_prompt(
    place: Place, mina: aiohttp.ClientSession
) -> None:
    appeals, asked = place.store.appeals, origin(1, user_id=IDS["yuna"], guild_id=HERE, channel_id=ART)
    refused = await appeals.note_refusal(recipe(prompt="a knife"), asked, rule="knives", weight=1.0, places=1)
    await appeals.appeal_refusal(refused, IDS["yuna"], words="it is <i>bread</i>")
    await post(mina, place, f"/wall/{refused}/claim")
    text = await shown(mina, place, f"/wall/{refused}")
    for words in ("a knife", "knives", "it is &lt;i&gt;bread&lt;/i&gt;"):
        assert words in text
    await post(mina, place, f"/wall/{refused}/decide", act="accept")
    (job,) = await place.store.jobs.active(user_id=IDS["yuna"])
    assert job.recipe.prompt == "a knife"
    assert (await place.store.reviews.get(refused, HERE)).kind is Kind.APPEAL


@pytest.mark.parametrize(("act", "noted"), [("approve", Act.APPROVE), ("reject", Act.REJECT)])
async def test_what_was_decided_a_moment_ago_is_held_again(
    place: Place, mina: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, act: str, noted: Act
) -> None:
    review, late = await held(place, 1), await held(place, 2)
    for each in (review, late):
        await post(mina, place, f"/wall/{each.id}/decide", act=act, reason="because")
    other = await place.as_("moderator")
    await post(other, place, f"/wall/{review.id}/undo")
    assert await place.store.reviews.waiting(HERE, limit=9) == []
    await post(mina, place, f"/wall/{review.id}/undo")
    assert [each.job_id for each in await place.store.reviews.waiting(HERE, limit=9)] == [review.job_id]
    monkeypatch.setattr("bot.page.wall.UNDO_SECONDS", -UNDO_SECONDS)
    await post(mina, place, f"/wall/{late.id}/undo")
    assert len(await place.store.reviews.waiting(HERE, limit=9)) == 1
    acts = [entry.act for entry in await place.store.moderation.entries(HERE, limit=9)]
    assert acts == [Act.HIDE, noted, noted]
    (image,) = (await place.store.jobs.get(review.job_id or "")).images
    assert (image.showing, image.ruling) == (Showing.HOLD, None)
    assert image.held is not None


@pytest.mark.parametrize("reason", ["because", ""])
@pytest.mark.parametrize(("marked", "after"), [({"tile": "1"}, "show"), ({}, "withhold")])
async def test_a_decision_by_picture_is_undone_for_all_its_pictures_and_for_no_other(
    place: Place, mina: aiohttp.ClientSession, marked: dict[str, str], after: str, reason: str
) -> None:
    review = await held(place, variants=3)
    job_id, reviews = review.job_id or "", place.store.reviews
    await reviews.decide(review.id, Outcome.SHOWN, replace(BY, reason=reason), but={0: Outcome.REJECTED})
    await reviews.hold(job_id, Hold(cause=Cause.REPORTS), BY)
    (second,) = await reviews.waiting(HERE, limit=9)
    await post(mina, place, f"/wall/{second.id}/decide", act="reject", reason=reason, **marked)
    images = (await place.store.jobs.get(job_id)).images
    assert [image.showing.value for image in images] == ["withhold", "withhold", after]
    await post(mina, place, f"/wall/{second.id}/undo")
    images = (await place.store.jobs.get(job_id)).images
    assert [image.showing.value for image in images] == ["withhold", "hold", "hold"]


async def test_a_rejection_is_not_undone_once_its_person_has_appealed(
    place: Place, mina: aiohttp.ClientSession
) -> None:
    review = await held(place)
    await post(mina, place, f"/wall/{review.id}/decide", act="reject", reason="because")
    await place.store.appeals.appeal_pictures(review.job_id or "", review.user_id)
    path, _ = await post(mina, place, f"/wall/{review.id}/undo")
    assert path == f"/wall/{review.id}?trouble=review_over"
    (image,) = (await place.store.jobs.get(review.job_id or "")).images
    assert image.showing is Showing.WITHHOLD


async def test_a_rejection_is_not_undone_once_the_person_of_a_copy_has_appealed(
    place: Place, mina: aiohttp.ClientSession
) -> None:
    review = await held(place)
    first = (await place.store.jobs.get(review.job_id or "")).images[0]
    copy = await copied(place, first.held or "", Showing.HOLD)
    await post(mina, place, f"/wall/{review.id}/decide", act="reject", reason="because")
    await place.store.appeals.appeal_pictures(copy, IDS["yuna"])
    path, _ = await post(mina, place, f"/wall/{review.id}/undo")
    assert path == f"/wall/{review.id}?trouble=review_over"
    for job_id in (copy, first.job_id):
        (image,) = (await place.store.jobs.get(job_id)).images
        assert image.showing is Showing.WITHHOLD


@pytest.mark.parametrize("of_copy", [False, True])
async def test_what_another_has_decided_since_is_not_undone(
    place: Place, mina: aiohttp.ClientSession, of_copy: bool
) -> None:
    review, store = await held(place), place.store
    await post(mina, place, f"/wall/{review.id}/decide", act="approve")
    undo = f"/wall/{review.id}/undo"
    assert undo in await shown(mina, place, f"/wall?last={review.id}")
    job = await store.jobs.get(review.job_id or "")
    job_id = await copied(place, job.images[0].artifact or "") if of_copy else job.id
    await store.reviews.hold(job_id, Hold(cause=Cause.REPORTS), BY)
    (second,) = await store.reviews.waiting(HERE, limit=9)
    await post(await place.as_("moderator"), place, f"/wall/{second.id}/decide", act="spoiler")
    assert undo not in await shown(mina, place, f"/wall?last={review.id}")
    path, _ = await post(mina, place, undo)
    assert path == f"/wall/{review.id}?trouble=review_over"
    assert await store.reviews.waiting(HERE, limit=9) == []
    assert [image.showing for image in (await store.jobs.get(job.id)).images] == [Showing.SPOILER]


async def copied(place: Place, name: str, showing: Showing = Showing.SHOW) -> str:
    """Another request of the server with the picture of this name."""
    whose = origin(2, user_id=IDS["yuna"], guild_id=HERE, channel_id=ART)
    copy = await place.store.jobs.enqueue(recipe(), whose)
    (claim,) = await place.store.leases.claim("one", limit=1, ttl=60.0)
    await place.store.leases.complete(claim, artifact=name, seconds=1.0, showing=showing)
    return copy.id


async def test_a_person_is_blocked_as_by_the_button_and_moderators_are_not(
    place: Place, mina: aiohttp.ClientSession
) -> None:
    review, of_moderator = await held(place, 1), await held(place, 2, user_id=IDS["wei"])
    place.sandbox.employ("wei", *MODERATES)
    await post(mina, place, f"/wall/{review.id}/block", reason="spam")
    _, text = await post(mina, place, f"/wall/{of_moderator.id}/block", reason="spam")
    assert 'role="alert"' in text
    (block,) = await place.store.moderation.in_force(HERE)
    assert (block.scope.user_id, block.by, block.reason) == (IDS["yuna"], IDS["mina"], "spam")


RULE = {"name": "knives", "action": "hold", "terms": "knife\nsword"}


async def test_a_rule_is_tried_on_the_prompts_of_the_last_day_before_it_is_saved(
    place: Place, mina: aiohttp.ClientSession
) -> None:
    store = place.store
    await store.prompt_rules.put(PromptRule(name="ours", action=Action.ALLOW, terms=("palette knife",)), BY)
    prompts = ["a <i>knife</i>", "k n i f e", "a palette knife", "a spoon", "a sw(o)rd"]
    for number, prompt in enumerate(prompts, start=1):
        await place.paint(number, prompt=prompt)
    await place.paint(6, prompt="a secret knife", private=True)
    await place.paint(7, prompt="a knife of others", guild_id=HERE + 7)
    path, text = await post(mina, place, "/rules/try", **RULE)
    assert path == "/rules/try"
    assert "would have held: 4 of 6" in re.sub(r"[\u2066-\u2069]", "", text)
    assert "a &lt;i&gt;knife&lt;/i&gt;" in text
    assert "secret" not in text
    assert "of others" not in text
    assert "knife\nsword</textarea>" in text  # nothing that was typed is lost
    assert [rule.name for rule in await store.prompt_rules.of(HERE)] == ["ours"]
    path, text = await post(mina, place, "/rules", **RULE)
    assert path == "/rules?saved=knives"
    rule = await store.prompt_rules.find(HERE, "knives")
    assert rule is not None
    assert (rule.action, rule.terms) == (Action.HOLD, ("knife", "sword"))
    (entry, _) = await store.moderation.entries(HERE, act=Act.RULE, limit=9)
    assert entry.actor_id == IDS["mina"]
    text = await shown(mina, place, "/rules?name=Knives")
    assert "knife\nsword</textarea>" in text
    await post(mina, place, "/rules/remove", name="knives")
    assert await store.prompt_rules.find(HERE, "knives") is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"terms": ""}, "terms"),
        ({"terms": "x" * 101}, "terms"),
        ({"name": "y" * 61}, "name"),
    ],
)
async def test_a_mistake_in_a_rule_is_said_beside_what_was_typed(
    place: Place, mina: aiohttp.ClientSession, changed: dict[str, str], words: str
) -> None:
    for path in ("/rules", "/rules/try"):
        _, text = await post(mina, place, path, **{**RULE, **changed})
        assert 'role="alert"' in text
        assert changed.get(words, "knife") in text
    assert await place.store.prompt_rules.of(HERE) == []


async def test_blocked_pictures_are_seen_and_unblocked(place: Place, mina: aiohttp.ClientSession) -> None:
    number = 0x0F1E2D3C4B5A6978
    await place.paint(1, hashes=Hashes(result=number))
    await place.store.known.block(number, By(actor_id=IDS["mina"], guild_id=HERE, reason="<b>stolen</b>"))
    await place.store.known.block(number ^ 0xFFFF, BY)
    text = await shown(mina, place, "/blocked")
    assert "&lt;b&gt;stolen&lt;/b&gt;" in text
    assert "No file of it is kept." in text
    async with mina.get(f"{place.url}/blocked/{name_of(number)}?small") as answer:
        assert (answer.status, answer.content_type) == (200, "image/webp")
    await post(mina, place, f"/blocked/{name_of(number)}/remove")
    assert [each.hash for each in await place.store.known.blocked(HERE)] == [number ^ 0xFFFF]
    async with mina.get(f"{place.url}/blocked/{name_of(number)}") as answer:
        assert answer.status == 404
