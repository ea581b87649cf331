"""What applies to a person in a channel: blocks, policies, quotas and rules; cached for each server."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.domain.channels import FLAGGED_KEYS, flagged_in
from bot.domain.errors import UserMistake
from bot.domain.jobs import Origin, Recipe
from bot.domain.quotas import Charge, Quota
from bot.front.recipes.options import find_offer
from bot.moderation.generosity import Privacy
from bot.moderation.limits import cost_of, kept_for_later, quotas_of
from bot.moderation.limits import refusal as refusal_of
from bot.moderation.policy import Effective, Policy, Said, effective, said_by
from bot.moderation.rules import Judge
from bot.moderation.standing import block_of, refusal
from bot.store import Store
from bot.store.moderation.policies import PolicyRow, PolicyScope
from bot.store.moderation.standing import Requester, ServerSays, StandingRow
from bot.store.rows.restrictions import Restriction
from sdjax_engine.request import Offer

MOST_SERVERS = 5000
MOST_PARTS = 60_000  # policies, words and phrases; compiled, a word takes some 4 KiB
MOST_DECIDED = 100  # results of `Server._decided`, for one server


@dataclass(frozen=True, kw_only=True)
class Operator:
    """What the operator says: the policy where nobody says otherwise, the bounds of all others, and weights.

    `weights` are those of roles by their ids: a person has the largest weight of their roles, or 1.
    """

    policy: Policy = field(default_factory=Policy)
    bounds: Policy = field(default_factory=Policy)
    weights: Mapping[int, float] = field(default_factory=dict)

    def weight_of(self, role_ids: Sequence[int]) -> float:
        """Return the weight that the operator gives a person in the fair order; 1 without such a role."""
        return max((self.weights[role] for role in role_ids if role in self.weights), default=1.0)

    def said(self, weight: float) -> tuple[Said, Said]:
        """Return the policy and the bounds of a person to whom the operator gives a weight."""
        policy, bounds = self.policy, self.bounds
        if policy.weight is None:
            policy = replace(policy, weight=weight)
        if bounds.weight is None:
            bounds = replace(bounds, weight=max(1.0, weight, *self.weights.values()))
        return Said(scope=PolicyScope.OPERATOR, policy=policy), Said(scope=PolicyScope.BOUND, policy=bounds)

    def shown_bounds(self) -> Policy:
        """Return the bounds as people are shown them: with the bounds that hold without being set.

        For flagged pictures that is the operator's policy, because workers show no picture more openly.
        """
        policy, bounds = self.policy, self.bounds
        most = max(1.0, 1.0, *self.weights.values())
        return replace(
            bounds,
            weight=most if bounds.weight is None else bounds.weight,
            **{
                key: flagged_in(kind, bounds) or flagged_in(kind, policy)
                for kind, key in FLAGGED_KEYS.items()
            },
        )


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What applies to a person in a channel, and the checks against it.

    `block` refuses the person's requests. `said` are the stored policies that apply;
    `effective` combines them with the operator's, and sets `quotas`. `weight` is the person's weight in the
    fair order. `judge` has the server's rules on words; `automod` says whether Discord's AutoMod rules apply.
    `in_session`, `has_answers` and `has_preferences` say which further reads are needed.
    """

    requester: Requester
    effective: Effective
    said: tuple[Said, ...] = ()
    quotas: tuple[Quota, ...] = ()
    weight: float = 1.0
    block: Restriction | None = None
    judge: Judge = field(default_factory=lambda: Judge(()))
    automod: bool = False
    in_session: bool = False
    has_answers: bool = False
    has_preferences: bool = False

    @property
    def policy(self) -> Policy:
        """The policy that the rules make together."""
        return self.effective.policy

    @property
    def _privacy(self) -> Privacy | None:
        """What the policy says of private answers; a direct message is private anyway."""
        return None if self.requester.guild_id is None else self.policy.private

    @property
    def is_private(self) -> bool:
        """Whether a policy wants every answer for the person alone."""
        return self._privacy is Privacy.ALWAYS

    def check_blocked(self) -> None:
        """Raise UserMistake where the person or the server is blocked."""
        if self.block is not None:
            raise refusal(self.block)

    def check_paints(self) -> None:
        """Raise UserMistake where the person or the server is blocked, or the person may not paint here."""
        self.check_blocked()
        if self.policy.paint is False:
            raise UserMistake("policy_paint")

    def check_privacy(self, *, asked: bool, private: bool) -> None:
        """Raise UserMistake where a policy forbids the private answer that was `asked` for, or a public."""
        if self._privacy is Privacy.NEVER and asked:
            raise UserMistake("policy_private_never")
        if self.is_private and not private:
            raise UserMistake("policy_private_always")

    def check_start_pictures(self) -> None:
        """Raise UserMistake where a policy lets no picture start from another."""
        if self.policy.start_pictures is False:
            raise UserMistake("policy_start_pictures")

    def check_recipe(self, recipe: Recipe) -> None:
        """Raise UserMistake where a policy refuses the pictures of a recipe."""
        if (error := refusal_of(self.policy, recipe)) is not None:
            raise error

    def charge(self, recipe: Recipe, offers: Sequence[Offer]) -> Charge:
        """Return the pictures and the cost of a request, and the quotas that it counts against."""
        cost = cost_of(recipe, find_offer(recipe.model, offers))
        return Charge(pictures=recipe.variants, cost=cost, quotas=self.quotas)

    def placed(self, origin: Origin) -> Origin:
        """Return an origin with what the policy says for later: how pictures are shown, in which language.

        A private answer is in the person's own language.
        """
        kept = kept_for_later(self.policy, origin.channel_kind)
        language = None if origin.private or origin.guild_id is None else self.policy.language
        return replace(origin, policy=kept, locale=language or origin.locale)


class Server:
    """The policies of a server by their owners, its rules on words, and whether its AutoMod rules apply."""

    def __init__(self, says: ServerSays) -> None:
        self.revision = says.revision
        self.judge = Judge(says.rules)
        self.automod = says.automod
        self._rows = {(row.scope, row.id): row for row in says.policies}
        self._operator: Operator | None = None
        self._decided: OrderedDict[tuple[object, ...], Standing] = OrderedDict()

    def __len__(self) -> int:
        """Return how many policies, words and phrases it has."""
        return len(self._rows) + len(self.judge)

    def standing(self, row: StandingRow, requester: Requester, operator: Operator) -> Standing:
        """Return what applies to a person, of whom `row` is stored."""
        return replace(
            self._policies(requester, operator),
            requester=requester,
            block=block_of(row.restrictions),
            in_session=row.in_session,
            has_answers=row.has_answers,
            has_preferences=row.has_preferences,
        )

    def _policies(self, requester: Requester, operator: Operator) -> Standing:
        """Return the standing of a person without restrictions; it is cached for all with the same policies.

        Policies of a thread come first, then of its channel, of roles, of the server.
        """
        if operator is not self._operator:  # the configuration can change while the process runs
            self._operator = operator
            self._decided.clear()
        weight = operator.weight_of(requester.role_ids)
        rows = list(self._holding(requester))
        key = (weight, *((row.scope, row.id) for row in rows))
        found = self._decided.get(key)
        if found is None:
            said = tuple(map(said_by, rows))
            decided = effective([*said, *operator.said(weight)])
            found = self._decided[key] = Standing(
                requester=requester,
                said=said,
                effective=decided,
                quotas=quotas_of(decided, operator.bounds, guild_id=requester.guild_id),
                weight=decided.policy.weight or weight,
                judge=self.judge,
                automod=self.automod,
            )
            if len(self._decided) > MOST_DECIDED:
                self._decided.popitem(last=False)
        else:
            self._decided.move_to_end(key)
        return found

    def _holding(self, requester: Requester) -> Iterator[PolicyRow]:
        if not self._rows:
            return
        owners: Sequence[tuple[PolicyScope, int]] = [
            *((PolicyScope.CHANNEL, channel_id) for channel_id in requester.channel_ids),
            *((PolicyScope.ROLE, role_id) for role_id in sorted(requester.role_ids)),
            (PolicyScope.SERVER, requester.guild_id or 0),
        ]
        yield from (self._rows[owner] for owner in owners if owner in self._rows)


class ServerCache:
    """The settings of the servers where pictures were asked for lately.

    Every request reads the revision of its server, and settings kept under another revision are read again:
    a change applies to the next request at every front.
    """

    def __init__(self, *, most_servers: int = MOST_SERVERS, most_parts: int = MOST_PARTS) -> None:
        self._most_servers, self._most_parts = most_servers, most_parts
        self._servers: OrderedDict[int, Server] = OrderedDict()
        self._parts = 0

    async def standing(self, store: Store, requester: Requester, operator: Operator) -> Standing:
        """Return what applies to a person in a channel; raises StoreUnavailable."""
        row, server = await self.look(store, requester)
        return server.standing(row, requester, operator)

    async def look(self, store: Store, requester: Requester) -> tuple[StandingRow, Server]:
        """Return what is stored of a person in a channel, and the settings of the server.

        Raises StoreUnavailable.
        """
        row = await store.standings.of(requester)
        guild_id = requester.guild_id or 0
        kept = self._servers.get(guild_id)
        if kept is not None and kept.revision == row.revision:
            self._servers.move_to_end(guild_id)
            return row, kept
        # A server without a revision has no policies, rules or switch of AutoMod.
        says = ServerSays() if row.revision is None else await store.standings.said_by(guild_id)
        kept = self._servers.get(guild_id)
        if kept is None or kept.revision != says.revision:  # no request read it meanwhile
            kept = Server(says)
            self._keep(guild_id, kept)
        return row, kept

    def _keep(self, guild_id: int, server: Server) -> None:
        self._forget(guild_id)
        self._servers[guild_id] = server
        self._parts += len(server)
        while len(self._servers) > 1 and (
            len(self._servers) > self._most_servers or self._parts > self._most_parts
        ):
            self._forget(next(iter(self._servers)))

    def _forget(self, guild_id: int) -> None:
        if (gone := self._servers.pop(guild_id, None)) is not None:
            self._parts -= len(gone)
