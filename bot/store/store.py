"""The durable queue: one database, and a member for each kind of rows."""

from __future__ import annotations

from collections.abc import Callable

from bot.store.database.database import Clock, Shared
from bot.store.database.opening import open_database
from bot.store.database.outage import Outage
from bot.store.files.picture_files import Files
from bot.store.files.retention import Retention
from bot.store.library.styles import Styles
from bot.store.library.wildcards import Wildcards
from bot.store.moderation.appeals import Appeals
from bot.store.moderation.automod import Automod
from bot.store.moderation.known import Known
from bot.store.moderation.policies import Policies
from bot.store.moderation.prompt_rules import PromptRules
from bot.store.moderation.reports import Reports
from bot.store.moderation.review_claims import ReviewClaims
from bot.store.moderation.review_messages import ReviewMessages
from bot.store.moderation.reviews import Reviews
from bot.store.moderation.standing import Standings
from bot.store.operations.failures import Failures
from bot.store.operations.gallery import Gallery
from bot.store.operations.logins import Logins
from bot.store.operations.messages import Messages
from bot.store.operations.queue import Queue
from bot.store.operations.workers import Workers
from bot.store.people.erasure import Erasure
from bot.store.people.exports import Exports
from bot.store.people.favourites import Favourites
from bot.store.people.preferences import Preferences
from bot.store.queue.batches import Batches
from bot.store.queue.deliveries import Deliveries
from bot.store.queue.demand import Demands
from bot.store.queue.jobs import Jobs
from bot.store.queue.leases import Leases
from bot.store.queue.offers import Offers
from bot.store.queue.positions import Positions
from bot.store.queue.statistics import Statistics
from bot.store.rows.charges import Charges
from bot.store.rows.device_time import DeviceTime
from bot.store.rows.previews import Previews
from bot.store.rows.restrictions import Moderation
from bot.store.sessions.boards import SessionShowing
from bot.store.sessions.posts import Posts
from bot.store.sessions.sessions import Sessions
from bot.telemetry.metrics import Metrics, StoreMetrics


class Store:
    """The queue in one database; every change survives a kill at any moment.

        jobs        what people ask for: enqueue, look, cancel
        positions   where jobs stand in the queue
        batches     which images have a seat on the devices now
        statistics  how much was painted, for whom
        offers      which models and lanes the workers offer
        leases      which worker paints which image, and until when
        deliveries  results that people have not seen yet
        files       the rows of picture files
        retention   rows and files that are older than the configuration keeps them
        erasure     what belongs to one person or one server, and its deletion
        exports     what is stored of one person beside jobs
        preferences options that persons, channels and servers prefer
        styles      texts and options that servers keep under names
        wildcards   lists of words that servers keep under names
        favourites  results that persons marked with a star
        previews    small pictures of the images that are being painted
        moderation  blocks and pauses, and the audit log
        known       whose a picture is, and which pictures are blocked
        reviews     held or reported pictures and appeals, and the decisions on them
        review_claims which moderator looks at which review
        review_messages messages about reviews that are due to moderators
        reports     what members say about pictures
        appeals     what persons ask moderators to look at again
        policies    what is allowed in a server, in its channels and with its roles
        charges     what requests count against quotas
        standings   the restrictions that hold for a person in a channel, and what its server says
        prompt_rules rules of servers about the words of prompts
        sessions    group sessions, their rounds and timers
        showing     what sessions show, and the votes in them
        posts       messages of sessions that are due
        automod     whether a server's AutoMod rules are applied to prompts
        demands     how much work waits, for workers of each class of accelerators
        device_time how long devices worked, by day, person, server and model
        workers     what each worker offers and paints now
        failures    failed images by cause
        queue       the requests that run or wait, in fair order
        gallery     finished requests with pictures
        messages    messages of every kind that are on their way
        logins      who is logged in at the operators' page

    Each member is given to those who use it. `wake_ups` wake the loops that wait for changes. Other packages
    make further members, such as `bot.membership.processes.Processes`, from `shared`.
    """

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.wake_ups = shared.wake_ups
        self.jobs = Jobs(shared)
        self.positions = Positions(shared)
        self.batches = Batches(shared)
        self.statistics = Statistics(shared)
        self.offers = Offers(shared)
        self.leases = Leases(shared)
        self.deliveries = Deliveries(shared)
        self.files = Files(shared)
        self.retention = Retention(shared)
        self.erasure = Erasure(shared)
        self.exports = Exports(shared)
        self.preferences = Preferences(shared)
        self.styles = Styles(shared)
        self.wildcards = Wildcards(shared)
        self.favourites = Favourites(shared)
        self.previews = Previews(shared)
        self.moderation = Moderation(shared)
        self.known = Known(shared)
        self.policies = Policies(shared)
        self.charges = Charges(shared)
        self.standings = Standings(shared)
        self.prompt_rules = PromptRules(shared)
        self.sessions = Sessions(shared)
        self.showing = SessionShowing(shared)
        self.posts = Posts(shared)
        self.reviews = Reviews(shared)
        self.review_claims = ReviewClaims(shared)
        self.review_messages = ReviewMessages(shared)
        self.reports = Reports(shared)
        self.appeals = Appeals(shared)
        self.automod = Automod(shared)
        self.demands = Demands(shared)
        self.device_time = DeviceTime(shared)
        self.workers = Workers(shared)
        self.failures = Failures(shared)
        self.gallery = Gallery(shared)
        self.messages = Messages(shared)
        self.queue = Queue(shared)
        self.logins = Logins(shared)

    @classmethod
    async def open(
        cls, url: str, *, clock: Callable[[], float] | None = None, metrics: StoreMetrics | None = None
    ) -> Store:
        """Connect to `url` (`sqlite:///file` or `postgresql://…`) and bring its tables up to date.

        `clock` replaces the queue's own. Raises StoreUnavailable, or ConfigurationError for a URL that can
        never work.
        """
        metrics = metrics or Metrics().store
        database = await open_database(url)
        database.on_failure = metrics.failures.inc
        database.new_outage = Outage
        if clock is not None:
            given = clock if isinstance(clock, Clock) else Clock(clock, clock)
            return cls(Shared(database=database, clock=given))
        own = Clock(server=database.has_time, on_jump=metrics.clock_steps.inc)
        store = cls(Shared(database=database, clock=own))
        await store.tell_time()
        return store

    @property
    def clock(self) -> Callable[[], float]:
        """The time by which everything in the queue is written, in seconds since the epoch."""
        return self.shared.clock

    async def revision(self) -> object:
        """Return a value that is another one after every commit of any process."""
        return await self.shared.database.revision()

    async def tell_time(self) -> None:
        """Read the time of a database that has its own, unless that was done lately."""
        await self.shared.tell_time()

    async def listen(self) -> None:
        """Wake loops for the changes of other processes, for ever, where the database can notify.

        Every loop polls as well, so a lost connection costs time only.
        """
        wake_ups = self.wake_ups
        await self.shared.database.listen(wake_ups.hear, wake_ups.ring_all)

    async def close(self) -> None:
        """Close the connections, after the verbs that run have returned."""
        await self.shared.database.close()
