"""What each column of the queue's tables says of a person, and what becomes of it when all is deleted.

Every column must be here, so that neither the deletion nor the export forgets a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from bot.store.store import Store  # its verbs import every table
from bot.store.tables.queue import metadata

assert Store is not None


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The columns of one table by what a deletion leaves: nothing, a number for the person, or a value.

    `kept` columns have their reason. `other` columns name no person and hold no words of one; a row that
    belongs to a person goes as a whole. `section` is the file of the export, or `unexported` the reason.
    """

    gone: str = ""
    number: str = ""
    kept: Mapping[str, str] = field(default_factory=dict)
    other: str = ""
    section: str = ""
    unexported: str = ""

    @property
    def personal(self) -> set[str]:
        """The columns that can say something of a person."""
        return {*self.gone.split(), *self.number.split(), *self.kept}

    @property
    def columns(self) -> list[str]:
        """All columns, each as often as it is listed."""
        return [*self.gone.split(), *self.number.split(), *self.kept, *self.other.split()]


LOG = "a word of a moderator in the server's log, which nobody can change; a number replaces the person"
ACT = "the reason of a moderator's act about another person, whom it is told"
SERVER = "belongs to the server: who made it is not stored, only the moderator's act in the log"
BANDS = " ".join(f"band_{number}" for number in range(4))

TABLES: Mapping[str, Kept] = {
    "jobs": Kept(
        gone="user_id user_name recipe interaction_token",
        kept={"ruling_reason": ACT},
        other="id interaction_id token_expires_at application_id guild_id channel_id locale private "
        "channel_kind state created_at started_at finished_at message_id message_channel_id deleted_at "
        "seed_sequence repeat tag places slowed paused paused_alone front parent_id parent_index "
        "parent_channel_id parent_message_id descent external hold hold_rule ruling appeal thread_parent_id "
        "policy traceparent",
        section="requests.json",
    ),
    "images": Kept(
        gone="notes artifact",
        kept={"ruling_reason": ACT},
        other="id job_id index seed lane steps share tag lead state paused step furthest worker "
        "fencing_token lease_expires_at begun worker_deaths leases_lost failure trouble showing ruling",
        section="requests.json",
    ),
    "previews": Kept(
        gone="picture", other="image_id", unexported="there while the picture is painted, which follows"
    ),
    "start_pictures": Kept(gone="artifact", other="job_id source", section="requests.json"),
    "favourites": Kept(gone="user_id", other="job_id", section="favourites.json"),
    "files": Kept(
        gone="name",
        other="bytes state changed_at used_at leased_until failure",
        unexported="the pictures themselves are in the archive",
    ),
    "outbox": Kept(
        other="id kind job_id review_id post_id front created_at attempts fencing_token next_try_at outcome "
        "settled_at",
        unexported="how the sending of a message stands",
    ),
    "last_tags": Kept(gone="user_id", other="tag", unexported="a number that orders the queue"),
    "session_tags": Kept(gone="user_id", other="session_id tag", unexported="a number that orders the queue"),
    "preferences": Kept(gone="owner_id options", other="scope guild_id", section="settings.json"),
    "styles": Kept(
        kept=dict.fromkeys(("key", "name", "prompt", "negative_prompt"), SERVER),
        other="guild_id options example",
        unexported=SERVER,
    ),
    "wildcards": Kept(
        kept=dict.fromkeys(("key", "name", "entries"), SERVER), other="guild_id", unexported=SERVER
    ),
    "prompt_rules": Kept(
        kept=dict.fromkeys(("key", "name", "terms", "also"), SERVER),
        other="guild_id channel_id action",
        unexported=SERVER,
    ),
    "policies": Kept(other="guild_id scope owner_id values", unexported=SERVER),
    "restrictions": Kept(
        number="by",
        kept={
            "user_id": "a block of the person stays until it ends, or each person could lift their own block",
            "reason": ACT,
        },
        other="kind guild_id channel_id until at",
        section="moderation.json",
    ),
    "audit": Kept(
        number="actor_id subject_id",
        kept=dict.fromkeys(("reason", "before", "after"), LOG),
        other="id at guild_id act",
        section="moderation.json",
    ),
    "picture_hashes": Kept(
        gone="hash", other=f"id job_id index guild_id {BANDS}", unexported="computed from the pictures"
    ),
    "blocked_pictures": Kept(
        number="by",
        kept={"reason": SERVER, "hash": "a server's block of a picture holds after the picture is gone"},
        other=f"guild_id at {BANDS}",
        unexported="the moderator's act is in the log, which is exported",
    ),
    "charges": Kept(
        kept={"user_id": "for a day at most, or a deletion would give the person the day's quota again"},
        other="job_id guild_id channel_id parent_channel_id at pictures cost",
        section="usage.json",
    ),
    "device_time": Kept(
        number="user_id", other="day guild_id model accelerator seconds pictures", section="usage.json"
    ),
    "logins": Kept(
        gone="user_id",
        other="hash kind made_at seen_at expires_at",
        unexported="an hour's way into the page, of no use without its secret",
    ),
    "reviews": Kept(
        gone="request words claimed_by",
        number="user_id decided_by",
        kept={"reason": ACT},
        other="id kind guild_id job_id rule opened_at due_at outcome decided_at answer channel_id message_id "
        "trouble claimed_until",
        section="reviews.json",
    ),
    "reports": Kept(gone="user_id reason", other="job_id guild_id at", section="reports.json"),
    "sessions": Kept(
        gone="host_id",
        kept={"plan": "the theme is in the prompts of all who took part; it goes with the session, by age"},
        other="id guild_id channel_id open_channel_id locale phase round paused_at opened_at collect_until "
        "closed_at settled board_id boards keeper keeper_token kept_until",
        section="sessions.json",
    ),
    "session_jobs": Kept(gone="user_id", other="job_id session_id round", section="requests.json"),
    "session_votes": Kept(gone="voter_id", other="session_id round number job_id", section="votes.json"),
    "session_entries": Kept(other="session_id round number job_id index", unexported="numbers on a sheet"),
}
IMPERSONAL = {  # of the bot, its processes and its servers
    "departures": "guild_id left_at",
    "duties": "name holder expires_at",
    "virtual_clock": "id time",
    "run_times": "lane seconds seconds_per_step beside_steps",
    "workers": "name seats expires_at version ready hourly memory drained",
    "offered_lanes": "worker lane seats",
    "turns": "scope",
    "processes": "name secret role machine place started_at expires_at",
    "published_offers": "model offer",
    "automod": "guild_id applied",
    "accelerators": "name",
    "class_run_times": "lane accelerator seconds_per_step",
    "awaited_offers": "model until",
    "server_revisions": "guild_id revision",
    "review_settings": "guild_id channel_id hours reports",
    "session_timers": "session_id kind due_at left",
    "session_posts": "id session_id kind round page ballot",
}


def unclassified() -> dict[str, set[str]]:
    """The columns of each table that are listed above not at all, twice, or although they are gone."""
    listed = {name: kept.columns for name, kept in TABLES.items()}
    listed |= {name: columns.split() for name, columns in IMPERSONAL.items()}
    there = {table.name: sorted(column.name for column in table.columns) for table in tables()}
    return {
        name: set(listed.get(name, [])) ^ set(there.get(name, [])) or {"twice"}
        for name in listed.keys() | there.keys()
        if sorted(listed.get(name, [])) != there.get(name)
    }


def tables() -> list[sa.Table]:
    """All tables of the queue."""
    return metadata.sorted_tables
