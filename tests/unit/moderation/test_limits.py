"""What a policy refuses of a request, and what it counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recipes import RECIPE

from bot.domain.channels import ChannelKind
from bot.domain.jobs import Recipe
from bot.domain.quotas import Counted, Left, Measure, Quota, free_at, is_over, scarcest, with_left
from bot.domain.time_units import DAY_SECONDS, HOUR_SECONDS
from bot.moderation.generosity import ANY, NO_LIMIT, Privacy, Treatment
from bot.moderation.limits import cost_of, kept_for_later, offers_within, places_of, quotas_of, refusal
from bot.moderation.policy import Policy, Said, effective
from bot.store.moderation.policies import PolicyScope
from sdjax_engine.request import Lora, Offer, Sampler, SecondPass

HERE, CHANNEL, ROLE = 21, 31, 41
LARGE = replace(RECIPE, second_pass=SecondPass(width=256, height=256, strength=0.5, num_inference_steps=40))
INKED = replace(RECIPE, loras=(Lora(name="ink"),))
OFFER = Offer(
    model="demo",
    sizes=((256, 256), (128, 128)),
    num_inference_steps=20,
    guidance_scale=5.0,
    sampler=Sampler.DDIM,
    loras=("ink", "fog"),
)


@pytest.mark.parametrize(
    ("policy", "recipe", "said"),
    [
        (Policy(paint=False), RECIPE, ("policy_paint", {})),
        (
            Policy(models=("other", "third")),
            RECIPE,
            ("policy_model", {"value": "demo", "choices": "other, third"}),
        ),
        (Policy(models=()), RECIPE, ("policy_model", {"value": "demo", "choices": "-"})),
        (Policy(pixels=128 * 128 - 1), RECIPE, ("policy_size", {"value": "128x128", "limit": "127x127"})),
        (Policy(pixels=128 * 128), LARGE, ("policy_size", {"value": "256x256", "limit": "128x128"})),
        (Policy(steps=19), RECIPE, ("policy_steps", {"limit": "19"})),
        (Policy(steps=20), LARGE, ("policy_steps", {"limit": "20"})),
        (Policy(variants=3), replace(RECIPE, variants=4), ("policy_variants", {"limit": "3"})),
        (Policy(loras=()), INKED, ("policy_lora", {"value": "ink", "choices": "-"})),
        (Policy(loras=("fog",)), INKED, ("policy_lora", {"value": "ink", "choices": "fog"})),
        (
            Policy(start_pictures=False),
            replace(RECIPE, init_image="aa/aa.png"),
            ("policy_start_pictures", {}),
        ),
        (
            Policy(start_pictures=False),
            replace(RECIPE, control_image="aa/aa.png", controlnet="canny"),
            ("policy_start_pictures", {}),
        ),
        (Policy(), LARGE, None),
        (Policy(paint=True, models=(ANY,), pixels=NO_LIMIT, steps=40, variants=1, loras=()), LARGE, None),
        (Policy(models=("demo",), pixels=128 * 128, loras=("ink",), start_pictures=False), INKED, None),
    ],
)
def test_a_policy_refuses_what_is_beyond_it(
    policy: Policy, recipe: Recipe, said: tuple[str, dict[str, str]] | None
) -> None:
    found = refusal(policy, recipe)
    assert (None if found is None else (found.message_id, dict(found.details))) == said


def test_quotas_count_where_their_rule_holds_and_bounds_everywhere() -> None:
    said = [
        Said(scope=PolicyScope.CHANNEL, id=CHANNEL, policy=Policy(pictures_per_hour=5)),
        Said(scope=PolicyScope.ROLE, id=ROLE, policy=Policy(pictures_per_day=NO_LIMIT, cool_down=0)),
        Said(scope=PolicyScope.SERVER, id=HERE, policy=Policy(cost_per_day=9, cool_down=60)),
        Said(scope=PolicyScope.OPERATOR, policy=Policy(cost_per_hour=4)),
    ]
    bounds = Policy(pictures_per_hour=7)
    said.append(Said(scope=PolicyScope.BOUND, policy=bounds))
    found = quotas_of(effective(said), bounds, guild_id=HERE)
    pictures, cost = Measure.PICTURES, Measure.COST
    assert set(found) == {
        Quota(
            key="pictures_per_hour",
            measure=pictures,
            limit=5,
            seconds=HOUR_SECONDS,
            guild_id=HERE,
            channel_id=CHANNEL,
        ),
        Quota(key="cost_per_day", measure=cost, limit=9, seconds=DAY_SECONDS, guild_id=HERE),
        Quota(key="cost_per_hour", measure=cost, limit=4, seconds=HOUR_SECONDS),
        Quota(key="pictures_per_hour", measure=pictures, limit=7, seconds=HOUR_SECONDS),
    }


def test_a_cool_down_is_one_request_in_its_seconds() -> None:
    said = [Said(scope=PolicyScope.SERVER, id=HERE, policy=Policy(cool_down=60))]
    quota = Quota(key="cool_down", measure=Measure.REQUESTS, limit=1, seconds=60, guild_id=HERE)
    assert quotas_of(effective(said), Policy(), guild_id=HERE) == (quota,)
    assert quotas_of(effective(said), Policy(), guild_id=None) == (replace(quota, guild_id=0),)


def test_offers_keep_within_a_policy_and_are_whole_where_nothing_is_left() -> None:
    [kept] = offers_within([OFFER], Policy(pixels=128 * 128, steps=9, loras=("fog",)))
    assert (kept.sizes, kept.max_steps, kept.num_inference_steps, kept.loras) == (
        ((128, 128),),
        9,
        9,
        ("fog",),
    )
    assert offers_within([OFFER], Policy(models=("other",))) == (OFFER,)
    other, wide = replace(OFFER, model="other"), replace(OFFER, sizes=((256, 128), (128, 128)))
    assert [offer.model for offer in offers_within([OFFER, other], Policy(models=("demo",)))] == ["demo"]
    assert offers_within([wide], Policy(pixels=128 * 128))[0].sizes == ((128, 128),)
    assert offers_within([OFFER], Policy()) == (OFFER,)


def test_a_job_keeps_what_counts_later() -> None:
    policy = Policy(
        review=True,
        previews=False,
        private=Privacy.NEVER,
        flagged=(Treatment.SHOW, Treatment.HOLD, Treatment.WITHHOLD),
    )
    plain = {"previews": False, "flagged": ["show", "hold", "withhold"]}
    assert kept_for_later(policy, ChannelKind.PLAIN) == kept_for_later(policy, ChannelKind.SPOILER) == plain
    assert kept_for_later(policy, ChannelKind.AGE_RESTRICTED) == {"previews": False}
    covered = replace(policy, flagged_spoiler=(Treatment.SPOILER,) * 3)
    assert kept_for_later(covered, ChannelKind.SPOILER)["flagged"] == ["spoiler"] * 3
    assert kept_for_later(Policy(review=False, previews=True), ChannelKind.AGE_RESTRICTED) == {}


def test_the_cost_of_a_picture_is_in_pictures_of_the_models_default() -> None:
    assert cost_of(RECIPE, OFFER) == pytest.approx(0.25)
    assert cost_of(replace(RECIPE, num_inference_steps=40), OFFER) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("given", "times"),
    [
        ({"control_image": "aa/a.png"}, 1.4),
        ({"reference": "aa/a.png"}, 2.0),
        ({"reference": "aa/a.png", "reference_2": "bb/b.png"}, 3.0),
        ({"image_prompt": "aa/a.png"}, 1.0),
    ],
)
def test_given_pictures_cost_what_the_denoiser_needs_more(given: dict[str, Any], times: float) -> None:
    second = SecondPass(width=256, height=256, strength=0.5, num_inference_steps=20)
    for recipe in (RECIPE, replace(RECIPE, second_pass=second)):
        plain = cost_of(recipe, OFFER)
        assert cost_of(replace(recipe, **given), OFFER) == pytest.approx(times * plain)


@pytest.mark.parametrize(("variants", "places"), [(1, 1), (8, 2), (9, 3)])
def test_a_request_takes_as_many_places_as_it_costs_in_whole_pictures(variants: int, places: int) -> None:
    assert places_of(replace(RECIPE, variants=variants), OFFER) == places


def test_a_quota_is_free_again_when_enough_of_the_oldest_is_over() -> None:
    quota = Quota(key="pictures_per_hour", measure=Measure.PICTURES, limit=10, seconds=HOUR_SECONDS)
    counted = [Counted(at=200.0, amount=4), Counted(at=100.0, amount=4)]
    assert free_at(counted, 6, quota) == 100.0 + HOUR_SECONDS
    assert free_at(counted, 7, quota) == 200.0 + HOUR_SECONDS
    assert free_at(counted, 11, quota) is None
    assert not is_over(0.1 + 0.2, 0.7, replace(quota, limit=1.0))


def test_the_scarcest_quota_is_told_from_a_fifth_on() -> None:
    hour = Quota(key="pictures_per_hour", measure=Measure.PICTURES, limit=10, seconds=HOUR_SECONDS)
    day = replace(hour, key="pictures_per_day", limit=100)
    pause = Quota(key="cool_down", measure=Measure.REQUESTS, limit=1, seconds=60)
    assert scarcest([Left(quota=hour, left=3), Left(quota=pause, left=0)]) is None
    assert scarcest([Left(quota=hour, left=2), Left(quota=day, left=10)]) == Left(quota=day, left=10)
    assert with_left({"previews": False}, [Left(quota=hour, left=0)]) == {
        "previews": False,
        "left": {"key": "pictures_per_hour", "left": 0, "limit": 10},
    }
