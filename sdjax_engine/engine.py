"""The engine: open it, submit requests, get pictures.

    with Engine.open(config, report=print) as engine:
        image = engine.submit(request).result()

Everything that changes what the devices hold after `open` happens on one thread, on which the `Scheduler`
works: other threads have it do chores between two turns (`memory/residency.py`). They compile themselves, and
read models into memory that was claimed before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from sdjax_engine.compiling.cache_folder import folder_problem, refusal
from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.compiling.executables import Executables
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.errors import EngineClosed, EngineError, InvalidRequest
from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Residency, host_memory_for_models, most_memory, usable_memory
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.model.pictures import Fitted
from sdjax_engine.models.attention_choice import attention_line
from sdjax_engine.models.attention_kernels import found_backend
from sdjax_engine.request import Image, Lane, Offer, OnProgress, PictureScores, Request
from sdjax_engine.scheduler.lane_queue import LaneQueue, Sums
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.thread import EngineThread
from sdjax_engine.startup.registry import (
    Change,
    Registry,
    Usage,
    arrived,
    leaving_lanes,
    pictures_of,
    read_change,
    release,
)
from sdjax_engine.startup.warm_up import WarmUp

Report = Callable[[str], None]
Clock = Callable[[], float]


class Engine:
    """Paints requests on all devices at once; every method may be called from any thread."""

    def __init__(
        self,
        models: Mapping[str, LoadedModel],
        queues: Mapping[Lane, LaneQueue],
        clock: Clock,
        *,
        stuck_after: float = 0.0,
        registry: Registry | None = None,
    ) -> None:
        self._models = models
        self._registry = registry
        self._warm_up: WarmUp | None = None
        self._prepares = True
        self._changing = threading.Lock()
        self._models_changed = threading.Condition()  # no model is removed while it is held
        self._replaced: frozenset[str] = frozenset()
        self._thread = EngineThread(queues, clock=clock, stuck_after=stuck_after)
        self._thread.start()
        if registry is not None:
            registry.residency.owner = self._thread

    @classmethod
    def open(cls, config: EngineConfig, *, report: Report, clock: Clock = time.perf_counter) -> Self:
        """Load every model, and return once the most used lane can paint.

        This is the lane with the most requests lately, or the first lane if there were none. The other lanes
        are made ready in the background, the most used first. `report` gets the progress of the start-up,
        from several threads, one line at a time. Raises UnreadableCheckpoint and DevicesFailed.
        """
        started = clock()
        devices.setup_cpu(config.cpu_devices)
        config = without_unsafe_cache(config, report)
        mesh = devices.open_mesh()
        config = config.settled(on_cpu=devices.is_cpu(mesh))
        for line in devices.report(mesh):
            report(line)
        report(attention_line(found_backend(), config.dtype))
        executables = Executables(config.cache_dir, config.cache_group) if config.cache_dir else None
        compiler = Compiler(mesh=mesh, report=report, clock=clock, executables=executables)
        budget = usable_memory(mesh, config.device_memory)
        host = host_memory_for_models(mesh, budget)
        residency = Residency(mesh, budget, most=most_memory(mesh), host=host, clock=clock)
        registry = Registry.begin(config, compiler, residency, Usage(config.cache_dir))
        first = registry.lanes[0]
        queues = {first: registry.first_queue()}
        engine = cls(
            *(registry.models, queues, clock),
            stuck_after=config.stuck_after,
            registry=registry,
        )
        engine._begin_warm_up(registry, done=[str(first)], started=started)
        return engine

    def _begin_warm_up(self, registry: Registry, *, done: Sequence[str] = (), started: float) -> None:
        """Start to make ready, in the background, all that is not ready yet."""
        clock = registry.compiler.clock
        self._warm_up = WarmUp(
            registry.steps(self._thread),
            done=done,
            at_once=registry.steps_at_once,
            report=registry.compiler.tell,
            seconds=lambda: clock() - started,
            last=lambda: self._thread.do(partial(registry.lines, self._thread)),
            requests=self._thread.intake,
            gives_way=devices.is_cpu(registry.compiler.mesh),
            ending=not self._prepares,
        )
        if not self._prepares:
            self._warm_up.begin_no_more()

    def read_models(self, models: Sequence[ModelSpec]) -> Change:
        """Read those of `models` that are new or changed, for `change_models`; the engine stays unchanged.

        Raises UnreadableCheckpoint, DevicesFailed, EngineClosed, and ValueError where this engine did not
        load its models.
        """
        if self._registry is None:
            raise ValueError("an engine changes only the models that it has loaded")
        return read_change(self._registry, models)

    def change_models(self, change: Change) -> Mapping[str, EngineError]:
        """Close the leaving models once all their requests are answered, and use the arriving models.

        `change` is from the last `read_models`. From the start of this call, `submit` refuses the leaving
        models, and waits for the models that replace others; the other models keep painting. New lanes are
        made ready in the background, as in `open`. Returns the errors of models that cannot be used, by
        name. Raises EngineClosed.
        """
        arriving = frozenset(read.spec.offer.model for read in change.arriving)
        with self._changing:
            with self._models_changed:
                self._replaced = change.leaving & arriving
                self._models = {
                    name: model for name, model in self._models.items() if name not in change.leaving
                }
            try:
                return self._change_models(change)
            finally:
                with self._models_changed:
                    self._replaced = frozenset()
                    self._models_changed.notify_all()

    def _change_models(self, change: Change) -> Mapping[str, EngineError]:
        """Change the models, of which none that leaves gets a request any more."""
        registry, warm_up = self._registry, self._warm_up
        assert registry is not None, "`read_models` has read the change"
        started = registry.compiler.clock()
        lanes = leaving_lanes(registry, change)
        self._thread.intake.wait_for_answers(lanes)
        if warm_up is not None:
            warm_up.stop()
        try:
            self._thread.intake.close_lanes(lanes)
        except EngineClosed:  # a draining close waits for lanes that the warm-up opens
            self._begin_warm_up(registry, started=started)
            raise
        self._thread.do(partial(release, registry, change))
        self._registry, failures = arrived(registry, change)
        with self._models_changed:
            self._models = self._registry.models
        self._begin_warm_up(self._registry, started=started)
        return failures

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The offer of each model, in the order of the configuration."""
        return tuple(model.offer for model in self._models.values())

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The served lanes, ready or not, without lanes that could not be made ready."""
        registry, has_failed = self._registry, self._thread.intake.has_failed
        if registry is None:
            return self.ready_lanes
        return registry.with_served(lane for lane in registry.lanes if not has_failed(lane))

    @property
    def ready_lanes(self) -> tuple[Lane, ...]:
        """The lanes that can paint now."""
        ready = self._thread.queues
        return tuple(ready) if self._registry is None else self._registry.with_served(ready)

    @property
    def memory_in_use(self) -> int:
        """How many bytes of each device are in use, or may be at any moment."""
        return 0 if self._registry is None else self._registry.residency.taken

    @property
    def run_sums(self) -> Sums:
        """How many runs the devices have made, and how long they and their dispatching took."""
        return self._thread.run_sums

    def wait_until_ready(self, timeout: float | None = None) -> bool:
        """Return once everything on offer is ready or has failed; False at the timeout, in seconds."""
        ends = None if timeout is None else time.monotonic() + timeout
        while (warm_up := self._warm_up) is not None:
            if not warm_up.wait(None if ends is None else max(0.0, ends - time.monotonic())):
                return False
            if not warm_up.stopped:
                break
            # `change_models` stopped the warm-up and will start another one: wait for it.
            if not self._changing.acquire(timeout=-1 if ends is None else max(0.0, ends - time.monotonic())):
                return False
            try:
                if warm_up is self._warm_up:
                    break
            finally:
                self._changing.release()
        return True

    def prepare_no_more(self) -> None:
        """From now on, make only those lanes ready that requests wait for.

        Before a draining `close`, other compilations would take processor time from the last images.
        """
        self._prepares = False
        if (warm_up := self._warm_up) is not None:
            warm_up.begin_no_more()

    def capacity(self, lane: Lane) -> int:
        """How many images of this lane are painted at once; KeyError for a lane that is not served.

        For a lane that is not ready yet, the planned number.
        """
        lane = self._serving(lane)
        queue = self._thread.queues.get(lane)
        if queue is None and self._registry is not None and lane in self._registry.lanes:
            return self._registry.seats
        return self._thread.queues[lane].device.seats

    def checks_pictures(self, model: str) -> bool:
        """Whether a model has a safety checker that is in use; KeyError for an unknown model."""
        return self._models[model].judges.safety_checker is not None

    def classifies_pictures(self, model: str) -> bool:
        """Whether a model has a picture classifier; KeyError for an unknown model."""
        return self._models[model].classifier is not None

    def judge(self, model: str, pixels: npt.NDArray[np.uint8]) -> PictureScores | None:
        """Return the classifier's probabilities for a picture (height, width, 3) of any size.

        None where the model has no classifier. The calling thread waits for the devices. Raises EngineClosed.
        """
        classifier = self._models[model].classifier
        return None if classifier is None else classifier.judge(pixels, self._thread)

    def seconds_per_image(self, lane: Lane) -> float | None:
        """How long images of this lane took lately from their seat to their pixels; None before the first."""
        queue = self._thread.queues.get(self._serving(lane))
        return None if queue is None else queue.seconds_per_image

    def _serving(self, lane: Lane) -> Lane:
        """Return the lane that paints the pictures of `lane`: itself, or the guided lane of the same size."""
        return lane if self._registry is None else self._registry.serving.get(lane, lane)

    def submit(
        self,
        request: Request,
        *,
        start: Fitted | None = None,
        on_progress: OnProgress | None = None,
        previews: bool = False,
    ) -> Future[Image]:
        """Queue the request; if its lane is not ready yet, the request waits until it is.

        `start` is `pictures.fitted(request)` for a caller that has it; else it is made here, which takes a
        tenth of a second or more for a large picture.

        The future always ends: with the image, with PaintingFailed, with DevicesFailed where its lane could
        not be made ready, cancelled, or with EngineClosed if the engine itself breaks. `on_progress` is
        called when the image gets its seat, with step 0, and at each run's end. With `previews`, some of
        these calls get a small picture of what is painted so far. `on_progress` and the callbacks of the
        future are called on the engine's thread: keep them short. While the request's model is replaced, the
        call waits for the new one, except in a callback. Raises InvalidRequest and EngineClosed.
        """
        while True:
            model = self._model_of(request)
            model.offer.check(request)
            passes = self._passes_of(request, from_picture=(start or request.init_image) is not None)
            prepared = model.prepare(request, start)
            self._count_use(passes)
            lanes = tuple(lane for lane, _ in passes)
            pending = PendingRequest(
                prepared=prepared, lanes=lanes, on_progress=on_progress, previews=previews
            )
            with self._models_changed:
                if self._models.get(request.model) is model:  # else it is leaving since
                    return self._thread.intake.submit(pending)

    def _model_of(self, request: Request) -> LoadedModel:
        """Return the request's model; waits while it is replaced. Raises InvalidRequest and EngineClosed."""
        may_wait = not self._thread.is_current  # a callback that waited would hold up the replacement
        with self._models_changed:
            self._models_changed.wait_for(lambda: not (may_wait and request.model in self._replaced))
            model = self._models.get(request.model)
        if model is None:
            self._thread.intake.check_open()
            raise InvalidRequest("model", value=request.model, choices=", ".join(self._models))
        return model

    def _passes_of(self, request: Request, *, from_picture: bool) -> list[tuple[Lane, bool]]:
        """Return the lane of each pass, and whether the pass starts from a picture; raises InvalidRequest."""
        registry = self._registry
        offered = self._thread.queues if registry is None else registry.lanes
        passes = list(zip(map(self._serving, request.lanes), (from_picture, True), strict=False))
        for lane, starts_from_picture in passes:
            if lane not in offered or self._thread.intake.has_failed(lane):
                raise InvalidRequest("lane", value=lane, choices=", ".join(map(str, self.lanes)))
            if starts_from_picture and not self._starts_from_pictures(lane):
                choices = ", ".join(map(str, self.lanes))
                raise InvalidRequest("lane", value=f"{lane} from a picture", choices=choices)
        return passes

    def _count_use(self, passes: Sequence[tuple[Lane, bool]]) -> None:
        """Count the lanes of an accepted request: the next start makes the most used one ready first.

        Refused requests do not count: the next start fails if the most used lane cannot be made ready.
        """
        if self._registry is not None:
            pictures = [pictures_of(lane) for lane, starts_from_picture in passes if starts_from_picture]
            self._registry.usage.count(*(str(lane) for lane, _ in passes), *pictures)

    def _starts_from_pictures(self, lane: Lane) -> bool:
        """Return whether an image of this lane may start from a picture, now or later."""
        queue = self._thread.queues.get(lane)
        ready = queue is not None and queue.device.starts_from_pictures
        return ready or (self._registry is not None and self._registry.offers_pictures(lane))

    def cancel(self, future: Future[Image]) -> bool:
        """Give up an image, waiting or half painted; False when it has already ended."""
        return future.cancel()

    def close(self, *, drain: bool) -> None:
        """Accept no more requests; return when its threads have ended, except any that stuck devices hold.

        With `drain`, waiting requests are painted first; without, every image not yet finished is
        cancelled, also while another thread waits for a draining close. In a callback it returns at once.
        """
        self._thread.close(drain=drain)
        if self._registry is not None:
            self._registry.stop()
        if self._thread.is_current:  # which does the chores that the other threads may wait for
            return
        with self._changing:
            if self._warm_up is not None:
                self._warm_up.stop()
        if self._registry is not None and not self._thread.is_hanging:
            self._registry.residency.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=error is None)


def without_unsafe_cache(config: EngineConfig, report: Report) -> EngineConfig:
    """Return the configuration without its cache folder where others could have written to it."""
    if config.cache_dir is None:
        return config
    problem = folder_problem(config.cache_dir, group=config.cache_group)
    if problem is None:
        return config
    report(refusal(problem))
    return replace(config, cache_dir=None)
