"""The metrics of a process, for Prometheus; `docs/operators/watching.md` says how to use them."""

from __future__ import annotations

from functools import partial

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
"""The answer of a health check that has found nothing wrong."""

STALL_SECONDS = 0.25
"""The event loop is stalled when it is blocked for longer. People notice such a delay."""

_ACKNOWLEDGED = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)  # Discord waits 3 s
_LAG = (0.005, 0.01, 0.025, 0.05, 0.1, STALL_SECONDS, 0.5, 1.0, 2.5, 5.0)
_PAINTED = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class FrontMetrics:
    """Metrics of commands and of Discord."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.commands = counter("sdjax_commands", "Commands and buttons that people used.", ["name"])
        self.acknowledgement = histogram(
            "sdjax_acknowledgement_seconds",
            "From an interaction's arrival to the first answer to it.",
            buckets=_ACKNOWLEDGED,
        )
        self.acknowledgement_since_asked = histogram(
            "sdjax_acknowledgement_since_asked_seconds",
            "From the time in an interaction's id to the first answer to it.",
            buckets=_ACKNOWLEDGED,
        )
        self.jobs_accepted = counter("sdjax_jobs_accepted", "Requests that were queued.")
        self.refusals = counter("sdjax_refusals", "Commands and buttons answered with a refusal.", ["reason"])
        self.gateway_events = counter(
            "sdjax_gateway_events",
            "Connections to the gateway: disconnected, resumed, identified.",
            ["event"],
        )
        self.discord_requests = counter(
            "sdjax_discord_requests",
            "Requests to Discord, by outcome: 2xx, 4xx, 429, 5xx or unreachable.",
            ["outcome"],
        )


class DeliveryMetrics:
    """Metrics of deliveries."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.deliveries = counter("sdjax_deliveries", "Deliveries that have ended.", ["outcome"])
        self.retries = counter("sdjax_delivery_retries", "Deliveries that are retried later.")


class ProvenanceMetrics:
    """Metrics of the manifests in pictures."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.pictures = counter(
            "sdjax_provenance_pictures",
            "Picture files that were signed; that were sent unsigned or unwatermarked, as they could not be; "
            "or were held.",
            ["outcome"],
        )


class WorkerMetrics:
    """Metrics of images and of the engine."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.images = counter(
            "sdjax_images",
            "Events of images: claimed, painted, withheld (unfit or blocked), failed, given_back, "
            "taken_back (their worker sent no heartbeat), lost (to another worker, or cancelled).",
            ["event"],
        )
        self.image_seconds = histogram(
            "sdjax_image_seconds", "From an image's seat to its pixels.", buckets=_PAINTED
        )
        self.device_seconds = counter(
            "sdjax_device_seconds",
            "Seconds that the devices have worked for images that have ended here, all devices together.",
            ["model"],
        )
        self.troubles = counter(
            "sdjax_image_troubles", "Images that the engine retried, by reason.", ["trouble"]
        )
        self.previews_late = counter(
            "sdjax_previews_late",
            "Heartbeats that left their previews out, because the files took too long to encode.",
        )
        self.process_restarts = gauge(
            "sdjax_process_restarts",
            "Restarts within an hour that led to this process, because its engine died.",
        )
        self.restarted_at = gauge(
            "sdjax_process_restarted_at",
            "When that last happened, in seconds since the epoch; 0 where it never did.",
        )
        self.seats = gauge("sdjax_seats", "Images that the engine paints at once.")
        self.claimed = gauge("sdjax_images_claimed", "Images that are claimed and not finished here.")
        self.engine_dispatching = gauge(
            "sdjax_engine_dispatch_seconds",
            "Seconds that the host has taken to dispatch runs to the devices.",
        )
        self.engine_run_seconds = gauge(
            "sdjax_engine_run_seconds", "Seconds that the devices have taken for runs."
        )
        self.engine_runs = gauge("sdjax_engine_runs", "Runs that the devices have made.")
        self.engine_late_runs = gauge(
            "sdjax_engine_late_runs", "Runs that the devices waited for: they had finished all earlier work."
        )

    def note_runs(self, runs: int, late: int, *, dispatching: float, finishing: float) -> None:
        """Set the numbers of runs and late runs, and the seconds that host and devices have spent on them."""
        self.engine_runs.set(runs)
        self.engine_late_runs.set(late)
        self.engine_dispatching.set(dispatching)
        self.engine_run_seconds.set(finishing)


class StoreMetrics:
    """Metrics of the queue. Its backlog is read when the metrics are requested."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        self.failures = counter("sdjax_store_failures", "Times that the queue could not be used.")
        self.clock_steps = counter("sdjax_clock_steps", "Jumps of the queue's clock.")
        self.waiting = gauge("sdjax_images_waiting", "Images that wait for a worker.")
        self.paused = gauge("sdjax_images_paused", "Images that wait in a paused channel or server.")
        self.running = gauge("sdjax_images_running", "Images that workers hold.")
        self.undelivered = gauge("sdjax_deliveries_waiting", "Results that are not delivered yet.")
        self.oldest_undelivered = gauge(
            "sdjax_oldest_delivery_seconds",
            "Age of the oldest result that is not delivered yet; 0 without any.",
        )


class LoopMetrics:
    """Metrics of the event loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.lag = histogram(
            "sdjax_loop_lag_seconds",
            "How late the event loop served a timer, twenty times a second.",
            buckets=_LAG,
        )
        self.stalls = counter(
            "sdjax_loop_stalls", f"Times that the event loop was blocked for over {STALL_SECONDS:g} s."
        )
        self.starved = counter(
            "sdjax_loop_starved_seconds",
            "The part of the event loop's lag in which it waited for a processor.",
        )
        self.starved_stalls = counter(
            "sdjax_loop_starved_stalls",
            "The stalls that only the wait for a processor made longer than the limit.",
        )
        self.processor = counter("sdjax_loop_processor_seconds", "Processor time of the event loop's thread.")
        self.longest = gauge("sdjax_loop_longest_stall_seconds", "The longest lag since the start.")


class Metrics:
    """All metrics of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.front = FrontMetrics(self.registry)
        self.delivery = DeliveryMetrics(self.registry)
        self.provenance = ProvenanceMetrics(self.registry)
        self.worker = WorkerMetrics(self.registry)
        self.store = StoreMetrics(self.registry)
        self.loop = LoopMetrics(self.registry)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
