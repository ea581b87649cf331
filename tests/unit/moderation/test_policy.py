"""Which policy decides: the nearest, of roles the most generous, within the operator's bounds."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bot.domain.channels import FLAGGED_KEYS
from bot.moderation.generosity import ANY, LEVELS, NO_LIMIT, ORDERS, Privacy, Treatment
from bot.moderation.limits import allows
from bot.moderation.policy import KEYS, Policy, Said, effective, policy_from, value_of, values_of
from bot.store.moderation.policies import PolicyScope

THREAD, CHANNEL, SERVER, ARTIST, NEWCOMER = 1, 2, 3, 14, 15

limits = st.none() | st.just(NO_LIMIT) | st.integers(0, 9)
switches = st.none() | st.booleans()
names = st.none() | st.lists(st.sampled_from(["ink", "fog", ANY]), max_size=3, unique=True).map(tuple)
levels = st.none() | st.tuples(*[st.sampled_from(Treatment)] * 3)
KINDS = {
    **dict.fromkeys(KEYS, limits),
    **dict.fromkeys(("paint", "start_pictures", "previews", "review"), switches),
    **dict.fromkeys(("models", "loras"), names),
    **dict.fromkeys(FLAGGED_KEYS.values(), levels),
    "private": st.none() | st.sampled_from(Privacy),
    "language": st.none() | st.sampled_from(["en", "ko"]),
}
policies = st.builds(lambda values: Policy(**values), st.fixed_dictionaries(KINDS))


def by_channel(policy: Policy, channel_id: int = CHANNEL) -> Said:
    return Said(scope=PolicyScope.CHANNEL, id=channel_id, policy=policy)


def by_role(policy: Policy, role_id: int = ARTIST) -> Said:
    return Said(scope=PolicyScope.ROLE, id=role_id, policy=policy)


def by_server(policy: Policy) -> Said:
    return Said(scope=PolicyScope.SERVER, id=SERVER, policy=policy)


def by_operator(policy: Policy) -> Said:
    return Said(scope=PolicyScope.OPERATOR, policy=policy)


def bound(policy: Policy) -> Said:
    return Said(scope=PolicyScope.BOUND, policy=policy)


@given(policies, policies, policies, policies, policies)
def test_each_key_comes_from_the_nearest_policy_that_says_something(
    thread: Policy, channel: Policy, role: Policy, server: Policy, operator: Policy
) -> None:
    said = [
        by_operator(operator),
        by_channel(thread, THREAD),
        by_role(role),
        by_channel(channel),
        by_server(server),
    ]
    found = effective(said)
    for key in KEYS:
        values = [value_of(each, key) for each in (thread, channel, role, server, operator)]
        nearest = next((value for value in values if value is not None), None)
        assert getattr(found.policy, key) in (nearest, (ANY,))
        assert (key in found.rules) is (nearest is not None)


@given(st.lists(policies, max_size=4), st.lists(policies, max_size=4))
def test_every_value_is_explained_by_rules_that_somebody_said(
    roles: list[Policy], bounds: list[Policy]
) -> None:
    said = [by_role(policy, number) for number, policy in enumerate(roles)]
    said += [bound(policy) for policy in bounds[:1]]
    found = effective(said)
    for key, rules in found.rules.items():
        assert rules
        for rule in rules:
            [mine] = [each for each in said if (each.scope, each.id) == (rule.scope, rule.id)]
            assert rule.key == key
            assert value_of(mine.policy, key) == rule.value


@given(policies, policies)
def test_a_second_role_takes_nothing_away(first: Policy, second: Policy) -> None:
    alone, both = effective([by_role(first)]).policy, effective([by_role(first), by_role(second, 99)]).policy
    for key in KEYS:
        if key != "language" and (had := getattr(alone, key)) is not None:
            has = getattr(both, key)
            assert ORDERS[key].generous([has, had]) == ORDERS[key].generous([has])


@given(policies, policies, policies)
def test_no_policy_is_more_generous_than_its_bound(role: Policy, server: Policy, bounds: Policy) -> None:
    found = effective([by_role(role), by_server(server), bound(bounds)]).policy
    for key in KEYS:
        if (limit := getattr(bounds, key)) is not None:
            value = getattr(found, key)
            unsaid = ORDERS[key] is LEVELS and value is None  # the worker bounds what a model's own rules say
            assert unsaid or ORDERS[key].severe(value, limit) == value


@given(policies)
def test_a_policy_is_read_back_from_json_as_it_was(policy: Policy) -> None:
    assert policy_from(json.loads(json.dumps(values_of(policy), allow_nan=False))) == policy


def test_a_key_of_a_later_version_is_ignored() -> None:
    assert policy_from({"steps": 9, "colours": 3}) == Policy(steps=9)


def test_a_nearer_policy_that_says_nothing_of_spoiler_channels_has_them_treated_as_plain_ones() -> None:
    shown, covered, withheld = (
        (each,) * 3 for each in (Treatment.SHOW, Treatment.SPOILER, Treatment.WITHHOLD)
    )
    server = by_server(Policy(flagged=withheld, flagged_spoiler=covered))
    assert effective([server]).policy.flagged_spoiler == covered
    assert effective([server, by_channel(Policy(flagged=withheld))]).policy.flagged_spoiler == withheld
    assert effective([server, by_channel(Policy(flagged_spoiler=shown))]).policy.flagged_spoiler == shown
    bounded = effective([server, by_channel(Policy(flagged_spoiler=shown)), bound(Policy(flagged=covered))])
    assert bounded.policy.flagged_spoiler == covered
    assert effective([by_operator(Policy(flagged_spoiler=shown)), server]).policy.flagged_spoiler == covered


def test_of_several_roles_the_most_generous_counts_and_names_add_up() -> None:
    found = effective(
        [
            by_role(Policy(pictures_per_day=5, cool_down=60, models=("sd15",), private=Privacy.NEVER)),
            by_role(Policy(pictures_per_day=NO_LIMIT, cool_down=30, models=("xl",)), NEWCOMER),
        ]
    )
    assert found.policy.pictures_per_day == NO_LIMIT
    assert found.policy.cool_down == 30
    assert found.policy.models == ("sd15", "xl")
    assert found.policy.private is Privacy.NEVER
    assert [rule.id for rule in found.rules["pictures_per_day"]] == [NEWCOMER]
    assert [rule.id for rule in found.rules["models"]] == [ARTIST, NEWCOMER]


def test_a_bound_that_cuts_a_value_is_named_beside_its_rule() -> None:
    found = effective([by_server(Policy(weight=50.0)), bound(Policy(weight=2.0, steps=40))])
    assert found.policy.weight == 2.0
    assert [rule.scope for rule in found.rules["weight"]] == [PolicyScope.SERVER, PolicyScope.BOUND]
    assert [rule.scope for rule in found.rules["steps"]] == [PolicyScope.BOUND]


def test_names_allow_all_where_nothing_is_said() -> None:
    assert allows(None, "ink")
    assert allows((ANY,), "ink")
    assert allows(("ink",), "ink")
    assert not allows((), "ink")
    assert not allows(("fog",), "ink")
