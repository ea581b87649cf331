"""What is counted of the bot's work, in Prometheus' terms; `docs/operations-watching.md` says what for."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    generate_latest,
)

WELL = "well"
"""What a part answers that is asked how it is, and has nothing to complain of."""

STALL_SECONDS = 0.25
"""A loop that stands still for longer is counted and logged: people notice."""

_ACKNOWLEDGED = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)  # Discord waits 3 s
_LAG = (0.005, 0.01, 0.025, 0.05, 0.1, STALL_SECONDS, 0.5, 1.0, 2.5, 5.0)
_PAINTED = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class FrontMetrics:
    """Of people and Discord."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.commands = Counter(
            "sdjax_commands", "Commands and buttons that people used.", ["name"], registry=registry
        )
        self.acknowledgement = Histogram(
            "sdjax_acknowledgement_seconds",
            "From an interaction's arrival to the first answer to it.",
            buckets=_ACKNOWLEDGED,
            registry=registry,
        )
        self.acknowledgement_since_asked = Histogram(
            "sdjax_acknowledgement_since_asked_seconds",
            "From when Discord made an interaction, by its id, to the first answer to it.",
            buckets=_ACKNOWLEDGED,
            registry=registry,
        )
        self.jobs_accepted = Counter("sdjax_jobs_accepted", "Requests that were queued.", registry=registry)
        self.refusals = Counter(
            "sdjax_refusals", "Commands and buttons answered with a refusal.", ["reason"], registry=registry
        )
        self.gateway_events = Counter(
            "sdjax_gateway_events",
            "Connections to the gateway: disconnected, resumed, identified.",
            ["event"],
            registry=registry,
        )
        self.discord_requests = Counter(
            "sdjax_discord_requests",
            "Requests to Discord, by what came of them: 2xx, 4xx, 429, 5xx or unreachable.",
            ["outcome"],
            registry=registry,
        )


class DeliveryMetrics:
    """Of results on their way."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.deliveries = Counter(
            "sdjax_deliveries", "Deliveries that were settled.", ["outcome"], registry=registry
        )
        self.retries = Counter(
            "sdjax_delivery_retries", "Attempts to deliver that are tried again later.", registry=registry
        )


class WorkerMetrics:
    """Of images and the engine that paints them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.images = Counter(
            "sdjax_images",
            "What became of images: claimed, painted, withheld (by the safety checker), failed, given_back, "
            "taken_back (their worker was not heard of), lost (somebody else has them, or they were "
            "cancelled).",
            ["event"],
            registry=registry,
        )
        self.image_seconds = Histogram(
            "sdjax_image_seconds",
            "From an image's seat to its pixels.",
            buckets=_PAINTED,
            registry=registry,
        )
        self.troubles = Counter(
            "sdjax_image_troubles", "Images that began anew, by why.", ["trouble"], registry=registry
        )
        self.engine_restarts = Gauge(
            "sdjax_engine_restarts",
            "How often stuck devices made the engine begin anew in this process.",
            registry=registry,
        )
        self.process_restarts = Gauge(
            "sdjax_process_restarts",
            "How often a dead engine made the process replace itself within the last hour.",
            registry=registry,
        )
        self.seats = Gauge("sdjax_seats", "Images that the engine paints at once.", registry=registry)
        self.held = Gauge(
            "sdjax_images_held", "Images that are claimed and not finished here.", registry=registry
        )


class StoreMetrics:
    """Of the queue; what waits in it is read when somebody asks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.failures = Counter(
            "sdjax_store_failures", "Times that the queue could not be used.", registry=registry
        )
        self.clock_steps = Counter(
            "sdjax_clock_steps", "Times that the clock was seen to jump.", registry=registry
        )
        self.waiting = Gauge("sdjax_images_waiting", "Images that wait for a worker.", registry=registry)
        self.running = Gauge("sdjax_images_running", "Images that workers hold.", registry=registry)
        self.undelivered = Gauge(
            "sdjax_deliveries_waiting", "Results not yet brought to their message.", registry=registry
        )
        self.oldest_undelivered = Gauge(
            "sdjax_oldest_delivery_seconds", "Age of the oldest of these; 0 without any.", registry=registry
        )


class LoopMetrics:
    """Of the event loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.lag = Histogram(
            "sdjax_loop_lag_seconds",
            "How late the event loop came back to a timer, twenty times a second.",
            buckets=_LAG,
            registry=registry,
        )
        self.stalls = Counter(
            "sdjax_loop_stalls",
            f"Times that the event loop stood still for over {STALL_SECONDS:g} s.",
            registry=registry,
        )
        self.starved = Counter(
            "sdjax_loop_starved_seconds",
            "Of the event loop's lag, the time that it waited for a processor of the machine.",
            registry=registry,
        )
        self.starved_stalls = Counter(
            "sdjax_loop_starved_stalls",
            "Of the stalls, those that were none but for the wait for a processor.",
            registry=registry,
        )
        self.processor = Counter(
            "sdjax_loop_processor_seconds", "Processor time of the event loop's thread.", registry=registry
        )
        self.longest = Gauge(
            "sdjax_loop_longest_stall_seconds", "The longest lag since the start.", registry=registry
        )


class Metrics:
    """All metrics of one process. A part that is given none counts for nobody."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.front = FrontMetrics(self.registry)
        self.delivery = DeliveryMetrics(self.registry)
        self.worker = WorkerMetrics(self.registry)
        self.store = StoreMetrics(self.registry)
        self.loop = LoopMetrics(self.registry)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)
