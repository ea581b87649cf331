"""Pages about policies in every language: what is set, why it decides, and what is left."""

from __future__ import annotations

import pytest
from recipes import job_of, origin

from bot.config import Config
from bot.delivery.quota_lines import left_lines
from bot.domain.jobs import State
from bot.domain.quotas import Left, Measure, Quota
from bot.front.commands.limits import limit_lines
from bot.front.moderators.policy import policy_lines, why_lines
from bot.front.services.standing import Standing
from bot.moderation.generosity import Privacy, Treatment
from bot.moderation.limits import SPANS, quotas_of
from bot.moderation.policy import Policy, Said, effective, values_of
from bot.store.moderation.policies import PolicyRow, PolicyScope
from bot.store.moderation.standing import Requester
from bot.store.rows.restrictions import Kind, Restriction, Scope
from bot.texts.catalogue import LANGUAGES, Texts

HERE, CHANNEL, ROLE = 21, 31, 41
MINE = Requester(user_id=11, guild_id=HERE)
OFFERS = (Config().models[0].offer,)
ALL = Policy(
    paint=True,
    models=("demo",),
    pixels=512 * 512,
    steps=20,
    variants=4,
    loras=(),
    start_pictures=False,
    private=Privacy.NEVER,
    previews=True,
    review=True,
    flagged=(Treatment.SHOW, Treatment.SPOILER, Treatment.WITHHOLD),
    flagged_spoiler=(Treatment.SHOW, Treatment.SPOILER, Treatment.HOLD),
    flagged_age_restricted=(Treatment.SHOW, Treatment.SHOW, Treatment.HOLD),
    pictures_per_hour=10,
    pictures_per_day=50,
    cost_per_hour=12.5,
    cost_per_day=60,
    cool_down=30,
    weight=0.5,
    language="ko",
)
SAID = (
    Said(scope=PolicyScope.CHANNEL, id=CHANNEL, policy=Policy(steps=9)),
    Said(scope=PolicyScope.ROLE, id=ROLE, policy=Policy(models=("a`b", "*c*"))),
    Said(scope=PolicyScope.SERVER, id=HERE, policy=ALL),
)


def standing(*said: Said, block: Restriction | None = None) -> Standing:
    found = effective(said)
    quotas = quotas_of(found, Policy(), guild_id=HERE)
    return Standing(requester=MINE, block=block, effective=found, said=said, quotas=quotas)


def left(of: Standing) -> list[Left]:
    return [Left(quota=quota, left=quota.limit / 2) for quota in of.quotas]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_key_and_its_rules_are_said_in_every_language(language: str) -> None:
    texts, mine = Texts(language), standing(*SAID)
    rows = [PolicyRow(scope=each.scope, id=each.id, values=values_of(each.policy)) for each in SAID]
    shown = policy_lines(rows, texts, bounds=Policy(steps=10))
    why = "\n".join(why_lines(mine, left(mine), texts))
    assert f"<@&{ROLE}>" in why
    assert f"<#{CHANNEL}>" in why
    limits = list(limit_lines(mine, left(mine), {"cool_down": 1_780_000_000.0}, OFFERS, texts))
    assert any("<t:1780000000:R>" in line for line in limits)
    if language != "en":
        english = {*policy_lines(rows, Texts("en"), bounds=Policy(steps=10))}
        assert not english & {line for line in shown if not line.startswith("### <")}


def test_the_page_names_what_decides_and_what_does_not() -> None:
    mine = standing(*SAID)
    lines = why_lines(mine, left(mine), Texts("en"))
    place = lines.index(f"- Most steps: 9 — <#{CHANNEL}>")
    assert lines[place + 1] == "  - The whole server says 20, which does not count here."
    assert f"- Models: a\\`b, \\*c\\* — <@&{ROLE}>" in lines
    assert "- Pictures an hour: 5 of 10 left." in lines
    assert "- Hourly cost, in standard pictures: 6.2 of 12.5 left." in lines


def test_spoiler_channels_have_a_line_once_a_policy_treats_them_apart() -> None:
    hold, withheld = (Treatment.HOLD,) * 3, (Treatment.WITHHOLD,) * 3
    server = Said(scope=PolicyScope.SERVER, id=HERE, policy=Policy(flagged=hold))
    assert not [line for line in why_lines(standing(server), [], Texts("en")) if "spoiler channels" in line]
    apart = Said(scope=PolicyScope.SERVER, id=HERE, policy=Policy(flagged=hold, flagged_spoiler=withheld))
    nearer = Said(scope=PolicyScope.CHANNEL, id=CHANNEL, policy=Policy(flagged=hold))
    lines = why_lines(standing(nearer, apart), [], Texts("en"))
    held_here = "1 held for moderators, 2 held for moderators, 3 held for moderators"
    place = lines.index(f"- Unsafe pictures, spoiler channels: {held_here} — <#{CHANNEL}>")
    assert lines[place + 1].startswith(
        "  - The whole server says 1 withheld, 2 withheld, 3 withheld, which does"
    )


def test_a_bound_is_named_beside_what_it_cuts() -> None:
    cut = standing(*SAID, Said(scope=PolicyScope.BOUND, policy=Policy(weight=0.2)))
    lines = why_lines(cut, [], Texts("en"))
    assert "- Weight in the queue: 0.2 — The whole server · The most that the bot's owner allows" in lines


def test_a_policy_beyond_a_bound_is_shown_with_what_counts_instead() -> None:
    hold, mild = (Treatment.HOLD,) * 3, (Treatment.SPOILER, Treatment.WITHHOLD, Treatment.WITHHOLD)

    def shown(bounds: Policy, **values: object) -> list[str]:
        row = PolicyRow(scope=PolicyScope.SERVER, id=HERE, values=values_of(Policy(**values)))  # type: ignore[arg-type]
        return policy_lines([row], Texts("en"), bounds=bounds)[1:]

    assert shown(Policy(steps=10), steps=20) == [
        "- Most steps: 20",
        "  - The bot's owner sets a bound: 10 counts.",
    ]
    assert shown(Policy(steps=10), steps=10) == ["- Most steps: 10"]
    [_, said] = shown(Policy(flagged=mild), flagged=hold)
    assert (
        said
        == "  - The bot's owner sets a bound: "
        + shown(Policy(), flagged=(hold[0], *mild[1:]))[0].split(": ")[1]
        + " counts."
    )
    assert shown(Policy(), flagged=hold)[1:] == [
        "  - No picture is shown more openly than the bot's owner allows for its model."
    ]
    assert len(shown(Policy(), flagged=(Treatment.WITHHOLD,) * 3)) == 1


def test_the_blocked_and_those_who_may_not_paint_read_only_that() -> None:
    block = Restriction(
        kind=Kind.BLOCK, scope=Scope(guild_id=HERE, user_id=11), until=None, reason="", by=1, at=0.0
    )
    texts = Texts("en")
    assert list(limit_lines(standing(*SAID, block=block), [], {}, OFFERS, texts)) == [
        "### Your limits here",
        "A moderator has blocked you from painting in this server. "
        "The block has no end date: ask a moderator to remove it.",
    ]
    closed = standing(Said(scope=PolicyScope.CHANNEL, id=CHANNEL, policy=Policy(paint=False)))
    assert list(limit_lines(closed, [], {}, OFFERS, texts)) == [
        "### Your limits here",
        "You may not paint here: ask a moderator who may, and where.",
    ]


def test_without_policies_everything_that_is_offered_is_allowed() -> None:
    lines = list(limit_lines(standing(), [], {}, OFFERS, Texts("en")))
    assert lines[:3] == [
        "### Your limits here",
        "- There is no quota for you here.",
        f"- Models: {OFFERS[0].model}",
    ]
    assert lines[3].startswith("- Sizes: ")


@pytest.mark.parametrize("key", SPANS)
def test_a_request_says_what_little_is_left(key: str) -> None:
    little = origin(1, policy={"left": {"key": key, "left": 2, "limit": 10}})
    [line] = left_lines(job_of(State.WAITING, origin=little), Texts("en"))
    assert line.startswith("-# ")
    assert line.endswith(": 2 of 10 left.")
    assert list(left_lines(job_of(State.WAITING), Texts("en"))) == []


def test_a_used_up_quota_says_when_the_next_picture_is_free() -> None:
    quota = Quota(key="pictures_per_hour", measure=Measure.PICTURES, limit=2, seconds=3600)
    spent = [Left(quota=quota, left=0)]
    lines = list(limit_lines(standing(), spent, {quota.key: 1_780_000_000.5}, OFFERS, Texts("en")))
    assert "- Pictures an hour: 0 of 2 left. The next is free <t:1780000000:R>." in lines
