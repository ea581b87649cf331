"""The queue's tables. A change here goes with a new migration, which a test compares with this file."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from bot.domain.channels import ChannelKind
from bot.domain.file_states import FileState
from bot.domain.jobs import Descent, Showing, State

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# SQLite numbers rows by itself only where the key is spelled INTEGER.
RowId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


class Member(sa.types.TypeDecorator[Any]):
    """A member of an enum, stored as its value; a value that this version does not know is read as text.

    `sa.Enum` raises LookupError for such a value, so one row of a newer version would hide all others.
    """

    impl = sa.String
    cache_ok = True

    def __init__(self, members: type[StrEnum], length: int) -> None:
        super().__init__(length)
        self.members = members
        self.length = length
        self._known: Mapping[str, StrEnum] = {member.value: member for member in members}

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:  # noqa: ARG002
        """Return the value of a member."""
        return None if value is None else self.members(value).value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:  # noqa: ARG002
        """Return the member of a value."""
        return self._known.get(value, value)


_State = Member(State, 16)
_FileState = Member(FileState, 8)
_Descent = Member(Descent, 16)
_Showing = Member(Showing, 16)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("interaction_id", sa.BigInteger, nullable=False, unique=True),
    sa.Column("interaction_token", sa.Text, nullable=False),
    sa.Column("token_expires_at", sa.Double, nullable=False),
    sa.Column("application_id", sa.BigInteger, nullable=False),
    sa.Column("user_id", sa.BigInteger, nullable=False),
    sa.Column("user_name", sa.String(100), nullable=False, server_default=""),  # for moderators' choices
    sa.Column("guild_id", sa.BigInteger),
    sa.Column("channel_id", sa.BigInteger, nullable=False),
    sa.Column("locale", sa.String(16), nullable=False),
    sa.Column("private", sa.Boolean, nullable=False),
    sa.Column("channel_kind", sa.String(16), nullable=False, server_default=ChannelKind.PLAIN.value),
    sa.Column("recipe", sa.JSON, nullable=False),
    sa.Column("state", _State, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("started_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.Column("message_id", sa.BigInteger),
    sa.Column("message_channel_id", sa.BigInteger),  # of that message; null for the channel of the request
    sa.Column("deleted_at", sa.Double),
    sa.Column("seed_sequence", sa.String(16)),  # the id of the first job; null for the first job
    sa.Column("repeat", sa.Integer),  # 1 for the first repeat of the sequence
    sa.Column("tag", sa.Double, nullable=False, server_default="0"),  # the tag of its first image
    sa.Column("places", sa.Integer, nullable=False, server_default="1"),  # its count against the caps
    sa.Column("slowed", sa.Boolean, nullable=False, server_default=sa.false()),  # over the full share
    sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false()),  # while it is active
    sa.Column("paused_alone", sa.Boolean, nullable=False, server_default=sa.false()),  # by a pause of its own
    sa.Column("front", sa.String(255)),  # the process that edits its message; null: any front
    sa.Column("parent_id", sa.String(16)),  # the job whose button created this one; it may be deleted
    sa.Column("parent_index", sa.Integer),
    sa.Column("parent_channel_id", sa.BigInteger),
    sa.Column("parent_message_id", sa.BigInteger),
    sa.Column("descent", _Descent),  # null without a parent
    sa.Column("external", sa.Boolean, nullable=False, server_default=sa.false()),  # user-installed app
    sa.Column("hold", sa.String(16)),  # why its pictures are held for review; null for no reason
    sa.Column("hold_rule", sa.String(255), nullable=False, server_default=""),
    sa.Column("ruling", sa.String(16)),  # what was decided; null before that
    sa.Column("ruling_reason", sa.Text, nullable=False, server_default=""),
    sa.Column("appeal", sa.String(16)),  # the state of the appeal about its pictures; null without one
    sa.Column("thread_parent_id", sa.BigInteger),  # the channel of the request's thread; null elsewhere
    sa.Column("policy", sa.JSON),  # what policies said then, by key, as far as it counts later
    sa.Column("traceparent", sa.String(55)),  # of its trace, in W3C's form; null without one
    sa.Index(None, "state", "user_id"),
    sa.Index(None, "finished_at"),
    sa.Index(None, "state", "paused", "tag", "interaction_id"),  # the fair order of all jobs
    sa.Index(None, "state", "guild_id", "tag", "interaction_id"),  # and of one server's
    sa.Index(None, "user_id", "interaction_id"),  # one person's history
    sa.Index(None, "seed_sequence", "repeat", unique=True),
    sa.Index(None, "front", "state"),
    sa.Index(None, "parent_id"),
    sa.Index(None, "message_id"),  # the job of a message that got a star
)
HOLDS_TOKEN = jobs.c.interaction_token != sa.literal_column("''")  # a literal, to match the index below
sa.Index(
    "ix_jobs_holding_token",
    jobs.c.token_expires_at,
    sqlite_where=HOLDS_TOKEN,
    postgresql_where=HOLDS_TOKEN,
)

ENDED = jobs.c.finished_at.is_not(None)
# Partial, so that no database searches it by the server alone, which may have most of the jobs.
sa.Index(
    "ix_jobs_ended_of_server",
    jobs.c.guild_id,
    jobs.c.finished_at,
    sqlite_where=ENDED,
    postgresql_where=ENDED,
)
sa.Index(
    "ix_jobs_ended_of_person", jobs.c.user_id, jobs.c.finished_at, sqlite_where=ENDED, postgresql_where=ENDED
)

images = sa.Table(
    "images",
    metadata,
    sa.Column("id", RowId, primary_key=True),
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    sa.Column("index", sa.Integer, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("lane", sa.String(255), nullable=False),
    sa.Column("steps", sa.Integer, nullable=False),
    sa.Column("share", sa.Double, nullable=False),  # cost / weight: the image's addition to its user's tag
    sa.Column("tag", sa.Double, nullable=False),
    sa.Column(
        "lead", sa.Double, nullable=False, server_default="0"
    ),  # its tag minus virtual time when it was enqueued
    sa.Column("state", _State, nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false()),  # like its job
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("furthest", sa.Integer, nullable=False, server_default="0"),  # the most steps in any attempt
    sa.Column("worker", sa.String(255)),
    sa.Column("fencing_token", sa.BigInteger, nullable=False),
    sa.Column("lease_expires_at", sa.Double),
    sa.Column("begun", sa.Boolean, nullable=False, server_default=sa.false()),  # under this lease
    sa.Column("worker_deaths", sa.Integer, nullable=False),  # after the devices had begun it
    sa.Column("leases_lost", sa.Integer, nullable=False, server_default="0"),  # begun or not
    sa.Column("artifact", sa.String(255)),
    sa.Column("failure", sa.Text),
    sa.Column("trouble", sa.Text),
    sa.Column("notes", sa.JSON),
    sa.Column("showing", _Showing, nullable=False, server_default=Showing.SHOW.value),
    sa.Column("ruling", sa.String(16)),  # what was last decided on this picture; null before that
    sa.Column("ruling_reason", sa.Text, nullable=False, server_default=""),
    sa.UniqueConstraint("job_id", "index"),
    sa.Index(None, "state", "paused", "tag", "id"),  # the fair order over all lanes
    sa.Index(None, "state", "paused", "lane", "tag", "id", "steps"),  # and within one, with the work there
    sa.Index(None, "artifact"),
)
MAYBE_POISON = images.c.leases_lost > sa.literal_column("0")  # a literal, to match the index below
sa.Index(
    "ix_images_maybe_poison",
    images.c.tag,
    images.c.id,
    sqlite_where=MAYBE_POISON,
    postgresql_where=MAYBE_POISON,
)

previews = sa.Table(
    "previews",  # of images that are being painted
    metadata,
    sa.Column("image_id", sa.ForeignKey("images.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("picture", sa.LargeBinary, nullable=False),
)

start_pictures = sa.Table(
    "start_pictures",
    metadata,
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("artifact", sa.String(255), primary_key=True),
    sa.Column("source", sa.String(8), nullable=False, server_default="own"),  # own, lent or painted
    sa.Index(None, "artifact"),
)
OWN, LENT, PAINTED = "own", "lent", "painted"
"""Sources of start pictures: sent with the job, sent with another job, painted here."""

favourites = sa.Table(
    "favourites",
    metadata,
    sa.Column("user_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    sa.Index(None, "job_id"),
)

departures = sa.Table(
    "departures",  # servers that removed the bot
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("left_at", sa.Double, nullable=False),
)

files = sa.Table(
    "files",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("bytes", sa.BigInteger),  # null until it is known
    sa.Column("state", _FileState, nullable=False),
    sa.Column("changed_at", sa.Double, nullable=False),  # when it entered this state, or was announced again
    sa.Column("used_at", sa.Double, nullable=False),  # when last written, or used by a new job
    sa.Column("leased_until", sa.Double),  # by the worker that repaints it
    sa.Column("failure", sa.Text),  # why it cannot be repainted
    sa.Index(None, "state", "used_at"),
)

duties = sa.Table(
    "duties",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("holder", sa.String(255), nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
)

last_tags = sa.Table(
    "last_tags",
    metadata,
    sa.Column("user_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("tag", sa.Double, nullable=False),
)

virtual_clock = sa.Table(
    "virtual_clock",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),  # always 1: there is one clock
    sa.Column("time", sa.Double, nullable=False),
)

run_times = sa.Table(
    "run_times",
    metadata,
    sa.Column("lane", sa.String(255), primary_key=True),
    sa.Column("seconds", sa.Double, nullable=False),  # moving mean, per image
    sa.Column("seconds_per_step", sa.Double, nullable=False),
    sa.Column("beside_steps", sa.Double, nullable=False, server_default="0"),  # the rest of `seconds`
)

workers = sa.Table(
    "workers",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("seats", sa.Integer, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
    sa.Column("drained", sa.Boolean, nullable=False, server_default=sa.false()),  # an operator's wish
    sa.Column("version", sa.String(32), nullable=False, server_default=""),  # of the bot
    sa.Column("ready", sa.Integer, nullable=False, server_default="0"),  # lanes whose programs are compiled
    sa.Column("hourly", sa.Integer, nullable=False, server_default="0"),  # pictures painted in the last hour
    sa.Column("memory", sa.BigInteger, nullable=False, server_default="0"),  # bytes of each device in use
)

offered_lanes = sa.Table(
    "offered_lanes",
    metadata,
    sa.Column("worker", sa.ForeignKey("workers.name", ondelete="CASCADE"), primary_key=True),
    sa.Column("lane", sa.String(255), primary_key=True),
    sa.Column("seats", sa.Integer, nullable=False, server_default="1"),
    sa.Index(None, "lane"),
)

turns = sa.Table(
    "turns",
    metadata,
    sa.Column("scope", sa.String(32), primary_key=True),  # the nearly full scope: a server's id, or all
)

processes = sa.Table(
    "processes",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("secret", sa.String(64), nullable=False),  # shared by successive processes of this name
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("machine", sa.String(255), nullable=False),
    sa.Column("place", sa.Text, nullable=False),  # `Process.folder`: equal for processes that share files
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
)

preferences = sa.Table(
    "preferences",
    metadata,
    sa.Column("scope", sa.String(8), primary_key=True),  # a person's, a channel's or a server's
    sa.Column("owner_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("guild_id", sa.BigInteger),  # for channels and servers: the row is deleted with the server
    sa.Column("options", sa.JSON, nullable=False),
    sa.Index(None, "guild_id"),
)

styles = sa.Table(
    "styles",
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("key", sa.String(255), primary_key=True),  # the name's key, equal for all its spellings
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("prompt", sa.Text, nullable=False),
    sa.Column("negative_prompt", sa.Text, nullable=False),
    sa.Column("options", sa.JSON, nullable=False),
    sa.Column("example", sa.String(255), nullable=False),
)

wildcards = sa.Table(
    "wildcards",
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("key", sa.String(255), primary_key=True),  # the name's key, equal for all its spellings
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("entries", sa.JSON, nullable=False),
)

restrictions = sa.Table(
    "restrictions",  # an id of 0 stands for all servers, channels or persons
    metadata,
    sa.Column("kind", sa.String(8), primary_key=True),  # block or pause
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("channel_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("user_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("until", sa.Double),  # null: without end
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("by", sa.BigInteger, nullable=False),  # 0 for the operator
    sa.Column("at", sa.Double, nullable=False),
    sa.Index(None, "until"),
    sa.Index(None, "user_id"),
    sa.Index(None, "by"),
)

audit = sa.Table(
    "audit",  # triggers refuse changes but the erasure of persons, and the deletion of young rows
    metadata,
    sa.Column("id", RowId, primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("guild_id", sa.BigInteger, nullable=False),  # 0 for an act of the operator everywhere
    sa.Column("actor_id", sa.BigInteger, nullable=False),  # 0 for the operator, negative once erased
    sa.Column("subject_id", sa.BigInteger, nullable=False),  # 0 for nobody, negative once erased
    sa.Column("act", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("before", sa.JSON),
    sa.Column("after", sa.JSON),
    sa.Index(None, "guild_id", "id"),
    sa.Index(None, "guild_id", "act", "id"),
    sa.Index(None, "actor_id", "guild_id", "id"),
    sa.Index(None, "subject_id", "guild_id", "id"),
)

prompt_rules = sa.Table(
    "prompt_rules",
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("key", sa.String(255), primary_key=True),  # the name's key, equal for all its spellings
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("channel_id", sa.BigInteger),  # null for every channel
    sa.Column("action", sa.String(16), nullable=False),
    sa.Column("terms", sa.JSON, nullable=False),
    sa.Column("also", sa.JSON, nullable=False),
)

published_offers = sa.Table(
    "published_offers",
    metadata,
    sa.Column("model", sa.String(255), primary_key=True),
    sa.Column("offer", sa.JSON, nullable=False),
)
