"""The models and lanes of an engine, their change, and the order in which lanes are made ready.

The most used lanes are made ready first. Other models are read first, then put in place of those that leave.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from sdjax_engine.compiling.compiler import Compiler, CompilingStopped, Program
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.errors import DevicesFailed, EngineClosed, EngineError, first_line
from sdjax_engine.lane import seat_count as room
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.lane.programs import LaneShapes, compile_begin
from sdjax_engine.lane.runs import SeatGrid
from sdjax_engine.lane.seat_count import open_lane
from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane, Offer
from sdjax_engine.scheduler.lane_queue import LaneQueue, Previews, Seats, suitable_seats
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.thread import EngineThread
from sdjax_engine.startup.companions import free_picture_classifier
from sdjax_engine.startup.loading import (
    ReadModel,
    check_companions,
    load_models,
    read_model,
    refused_by_devices,
    use_companions,
    use_model,
)
from sdjax_engine.startup.warm_up import Step

FILE = "usage.json"
HALF_LIFE = 3 * 24 * 3600.0  # seconds until a request counts half
SECONDS_BETWEEN_WRITES = 300.0


class Usage:
    """How often each name was asked for; old requests count less. May be used from any thread.

    The counts are kept in `folder` (None: not at all). A file that cannot be read or written is ignored.
    """

    def __init__(self, folder: Path | None, *, clock: Callable[[], float] = time.time) -> None:
        self._file = None if folder is None else folder / FILE
        self._clock = clock
        self._lock = threading.Lock()
        self._written_at = clock()
        self._counts = self._read()

    def count(self, *names: str) -> None:
        """Count a request for each of the names; written now and then."""
        with self._lock:
            now = self._clock()
            for name in names:
                self._counts[name] = self._counts.get(name, 0.0) + 1.0
            due = now - self._written_at >= SECONDS_BETWEEN_WRITES
        if due:
            self.write()

    def in_order(self, names: Sequence[str]) -> list[str]:
        """Return the names by their counts, the largest first; equal counts keep their order."""
        with self._lock:
            counts = dict(self._counts)
        return sorted(names, key=lambda name: -counts.get(name, 0.0))

    def write(self) -> None:
        """Keep the counts for the next start."""
        if self._file is None:
            return
        with self._lock, suppress(OSError):
            self._age()
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part = self._file.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps({"at": self._written_at, "counts": self._counts}), encoding="utf-8")
            part.replace(self._file)

    def _age(self) -> None:
        """Reduce every count by its age."""
        now = self._clock()
        left = math.exp2(min(0.0, self._written_at - now) / HALF_LIFE)
        self._counts = {name: count * left for name, count in self._counts.items()}
        self._written_at = now

    def _read(self) -> dict[str, float]:
        if self._file is None:
            return {}
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
            left = math.exp2(min(0.0, float(stored["at"]) - self._written_at) / HALF_LIFE)
            return {str(name): float(count) * left for name, count in stored["counts"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}


logger = logging.getLogger(__name__)

CORES_FOR_A_LANE = 4
"""The cores for each lane that is made ready at the same time; its programs are compiled two at a time."""


def lanes(offer: Offer) -> tuple[Lane, ...]:
    """Every lane that requests within this offer can be in, the most likely first."""
    usual = offer.guidance_scale > 1
    return tuple(
        Lane(model=offer.model, height=height, width=width, guided=guided, references=references)
        for references in range(offer.references + 1)
        for guided in (usual, not usual)
        for width, height in offer.sizes
    )


def lanes_in_order(
    config: EngineConfig, models: Mapping[str, LoadedModel], usage: Usage
) -> tuple[tuple[Lane, ...], Mapping[Lane, Lane]]:
    """Return the lanes to make ready, the most used first, and `served_by_others`."""
    wanted = config.lanes
    if wanted is None:
        wanted = tuple(lane for model in models.values() for lane in lanes(model.offer))
    offers = [model.offer for model in models.values()] if config.fitted_programs else []
    serving = served_by_others(wanted, offers)
    by_name = {str(lane): lane for lane in wanted if lane not in serving}
    return tuple(by_name[name] for name in usage.in_order(list(by_name))), serving


def served_by_others(wanted: Collection[Lane], fitted: Collection[Offer]) -> dict[Lane, Lane]:
    """Return the lanes whose pictures another lane paints, with that lane, for offers with fitted programs.

    A guided lane paints unguided pictures too, each of half as many rows. Its seats hold two texts: where
    most pictures are unguided, these keep a lane of their own, which has room for more seats.
    """
    guided = {offer.model for offer in fitted if offer.guidance_scale > 1}
    others = {lane: replace(lane, guided=True) for lane in wanted if lane.model in guided and not lane.guided}
    return {lane: other for lane, other in others.items() if other in wanted}


def pictures_of(lane: Lane) -> str:
    """Return the name of a lane's start pictures in the counts of use and in the report."""
    return f"{lane.model}:{lane.width}x{lane.height} from pictures"


@dataclass(frozen=True, kw_only=True)
class Addition:
    """Programs that an open lane may get, where they are `wanted`.

    `name` is that of the step, with a place for the lane's. `ready` says whether a lane has the programs.
    `prepare` raises where they cannot be compiled; `failed` says what the lane does then.
    """

    name: str
    wanted: Callable[[Registry, Lane], bool]
    ready: Callable[[DeviceLane], bool]
    prepare: Callable[[DeviceLane], None]
    failed: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Registry:
    """Makes lanes ready one by one; `lanes` are all of them, the most used first.

    `serving` are further lanes, each with that of `lanes` which paints its pictures.
    """

    config: EngineConfig
    compiler: Compiler
    residency: Residency
    models: Mapping[str, LoadedModel]
    lanes: tuple[Lane, ...]
    usage: Usage
    serving: Mapping[Lane, Lane] = field(default_factory=dict)
    _with_pictures: dict[str, Program] = field(default_factory=dict, init=False)
    _once_open: dict[Lane, list[Addition]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @classmethod
    def begin(cls, config: EngineConfig, compiler: Compiler, residency: Residency, usage: Usage) -> Registry:
        """Load every model; raises UnreadableCheckpoint and DevicesFailed."""
        models = load_models(config, compiler, residency)
        ordered, serving = lanes_in_order(config, models, usage)
        return cls(
            config=config,
            compiler=compiler,
            residency=residency,
            models=models,
            lanes=ordered,
            usage=usage,
            serving=serving,
        )

    def changed(self, specs: tuple[ModelSpec, ...], models: Mapping[str, LoadedModel]) -> Registry:
        """Return a registry of these models; what is ready for models that stay is ready there too."""
        # An engine may be without models for a time: where those that arrive do not fit, for example.
        config = replace(self.config, models=specs, lanes=None) if specs else self.config
        ordered, serving = lanes_in_order(config, models, self.usage)
        other = replace(self, config=config, models=models, lanes=ordered, serving=serving)
        stay = {name for name in models if models[name] is self.models.get(name)}
        pictures = {pictures_of(lane) for lane in other.lanes if lane.model in stay}
        ready = {name: program for name, program in self._with_pictures.items() if name in pictures}
        other._with_pictures.update(ready)
        return other

    def with_served(self, lanes: Iterable[Lane]) -> tuple[Lane, ...]:
        """Return these `lanes`, each followed by the lanes whose pictures it paints."""
        served = {lane: [other for other, by in self.serving.items() if by == lane] for lane in lanes}
        return tuple(each for lane, others in served.items() for each in (lane, *others))

    def offers_pictures(self, lane: Lane) -> bool:
        """Whether images of this lane may start from pictures, once that is ready."""
        return self.config.start_pictures or bool(self.models[lane.model].networks.denoiser.further_channels)

    def stop(self) -> None:
        """Make nothing ready any more, and write the counts of use."""
        self.compiler.stop()
        self.usage.write()

    @property
    def seats_per_device(self) -> int:
        """How many seats a lane has on each device, where there is memory for them."""
        on_cpu = devices.is_cpu(self.compiler.mesh)
        return self.config.seats_per_device or suitable_seats(on_cpu=on_cpu)

    @property
    def seats(self) -> int:
        """How many seats a lane has on all devices, where there is memory for them."""
        return devices.device_count(self.compiler.mesh) * self.seats_per_device

    def fits_programs(self, lane: Lane) -> bool:
        """Whether a lane has programs that suit some runs only, and cost less."""
        model = self.models[lane.model]
        grid = SeatGrid(devices=1, seats_per_device=self.seats_per_device, halves=model.halves(lane))
        return bool(self.config.fitted_programs and grid.further_forms(loras=model.adapts_denoiser))

    @property
    def steps_at_once(self) -> int:
        """How many lanes may be made ready at once."""
        return max(1, devices.usable_cores() // CORES_FOR_A_LANE)

    def queue(self, lane: Lane) -> LaneQueue:
        """Make a lane ready for pictures from noise; raises DevicesFailed."""
        with refused_by_devices():
            device = open_lane(partial(self._device, lane), lane, self.residency, self.seats_per_device)
        seats = self._seats(device.seats_per_device)
        return LaneQueue(device=device, seats=seats, previews=self._previews(lane.model))

    def first_queue(self) -> LaneQueue:
        """Make the most used lane ready, its model on the devices; raises DevicesFailed."""
        queue = self.queue(self.lanes[0])
        with refused_by_devices():
            queue.device.bring()
        return queue

    def lines(self, thread: EngineThread) -> list[str]:
        """Return the lines of the report about seats and memory once everything is ready."""
        opened = {lane: thread.queues[lane].device for lane in thread.queues}
        return [*room.lines(opened, self.residency), *self.residency.lines()]

    def _device(self, lane: Lane, seats_per_device: int) -> DeviceLane:
        return DeviceLane(
            lane,
            self.models[lane.model],
            seats_per_device=seats_per_device,
            compiler=self.compiler,
            start_pictures=False,
            previews=self.config.preview_seconds > 0,
        )

    def _previews(self, model: str) -> Previews | None:
        """Return the previews of a lane of this model; None where they are off."""
        seconds = self.config.preview_seconds
        if not seconds:
            return None
        colours = self.models[model].networks.latents.colours
        return Previews(seconds=seconds, most_share=self.config.preview_share, colours=colours)

    def steps(self, thread: EngineThread) -> list[Step]:
        """Return what is left to be made ready for the requests in `thread`, in the order of use."""
        opened = thread.queues
        missing = [lane for lane in self.lanes if lane not in opened]
        steps = {str(lane): self._lane_step(lane, thread) for lane in missing}
        if self.config.start_pictures:
            names = [name for name in map(pictures_of, self.lanes) if name not in self._with_pictures]
            steps |= {name: self._pictures_step(name, thread) for name in names}
        steps |= {step.name: step for step in self._further_steps(thread)}
        return [steps[name] for name in self.usage.in_order(list(steps))]

    def _lane_step(self, lane: Lane, thread: EngineThread) -> Step:
        def make() -> None:
            thread.intake.open_queue(self.queue(lane))
            with self._lock:
                with_pictures = pictures_of(lane) in self._with_pictures
                additions = self._once_open.pop(lane, [])
            if with_pictures:
                self._prepare_pictures(lane, thread)
            for addition in additions:
                self._add_late(addition, lane, thread)

        def fail(error: Exception) -> None:
            thread.intake.fail_lane(lane, as_engine_error(error))

        return Step(name=str(lane), make=make, fail=fail, opens=frozenset([(lane, False), (lane, True)]))

    def _pictures_step(self, name: str, thread: EngineThread) -> Step:
        served = [lane for lane in self.lanes if pictures_of(lane) == name]

        def make() -> None:
            shapes = LaneShapes(lane=served[0], model=self.models[served[0].model], seats_per_device=1)
            with refused_by_devices():
                program = compile_begin(shapes, self.compiler)  # which the lanes compile again
            with self._lock:
                self._with_pictures[name] = program
            for lane in [lane for lane in served if lane in thread.queues]:
                self._prepare_pictures(lane, thread)

        def fail(error: Exception) -> None:
            for lane in served:
                thread.intake.fail_lane(lane, as_engine_error(error), pictures_only=True)

        return Step(name=name, make=make, fail=fail, opens=frozenset((lane, True) for lane in served))

    def _further_steps(self, thread: EngineThread) -> Iterator[Step]:
        """Yield the optional steps of every lane, which serves requests without them, but less well."""

        def fail(error: Exception) -> None:
            """Requests go on without it."""

        for addition in ADDITIONS:
            for lane in self.lanes:
                has_it = lane in thread.queues and addition.ready(thread.queues[lane].device)
                if not has_it and addition.wanted(self, lane):
                    make = partial(self._add, addition, lane, thread)
                    yield Step(name=addition.name.format(lane), make=make, fail=fail)

    def _add(self, addition: Addition, lane: Lane, thread: EngineThread) -> None:
        """Prepare an open lane; a lane that is not open yet is prepared by the thread that opens it."""
        with self._lock:
            opened = lane in thread.queues
            if not opened:
                self._once_open.setdefault(lane, []).append(addition)
        if opened:
            addition.prepare(thread.queues[lane].device)

    def _add_late(self, addition: Addition, lane: Lane, thread: EngineThread) -> None:
        """Prepare a lane that has just been opened, and stays open where that fails."""
        try:
            self._add(addition, lane, thread)
        except (CompilingStopped, EngineClosed):
            raise
        except Exception as error:
            logger.exception("%s %s", lane, addition.failed)
            self.compiler.tell(f"{lane} {addition.failed}: {first_line(error)}")

    def _prepare_pictures(self, lane: Lane, thread: EngineThread) -> None:
        """Let images of an open lane start from pictures; where that fails, only those images fail."""
        try:
            with refused_by_devices():
                thread.queues[lane].device.prepare_pictures()
        except (CompilingStopped, EngineClosed):
            raise
        except Exception as error:
            logger.exception("%s cannot start from pictures", lane)
            self.compiler.tell(f"{lane} cannot start from pictures: {error}")
            thread.intake.fail_lane(lane, as_engine_error(error), pictures_only=True)
        thread.intake.look_again()

    def _seats(self, seats_per_device: int) -> Seats[PendingRequest]:
        """Return empty seats on every device."""
        count = devices.device_count(self.compiler.mesh)
        return Seats(devices=count, seats_per_device=seats_per_device)


ADDITIONS = (
    Addition(
        name="{} in float32",  # pictures that are not finite fail at once without it
        wanted=lambda registry, lane: not registry.models[lane.model].decodes_in_float32,
        ready=lambda device: device.retries,
        prepare=lambda device: device.prepare_retry(),
        failed="cannot decode again in float32",
    ),
    Addition(
        name="{} with fitted programs",
        wanted=Registry.fits_programs,
        ready=lambda device: device.fitted,
        prepare=lambda device: device.prepare_forms(),
        failed="computes every seat in every run",
    ),
)


def as_engine_error(error: Exception) -> EngineError:
    """Return the error with which the requests that wait for a failed lane are answered."""
    return error if isinstance(error, EngineError) else DevicesFailed(first_line(error))


@dataclass(frozen=True, kw_only=True)
class Change:
    """Other models for an engine: `leaving` are removed or replaced, `arriving` are read and not in use."""

    config: EngineConfig
    leaving: frozenset[str]
    arriving: tuple[ReadModel, ...] = field(repr=False)


def read_change(registry: Registry, specs: Sequence[ModelSpec]) -> Change:
    """Read the models that are new or have another spec; the models in use do not change.

    Raises UnreadableCheckpoint, DevicesFailed and ValueError.
    """
    config = replace(registry.config, models=tuple(specs), lanes=None)
    specs_before = (spec for spec in registry.config.models if spec.offer.model in registry.models)
    before = {spec.offer.model: spec for spec in specs_before}
    staying = {spec.offer.model for spec in specs if before.get(spec.offer.model) == spec}
    arriving = []
    with refused_by_devices():
        for spec in specs:
            if spec.offer.model not in staying:
                read = read_model(spec, config, registry.compiler, registry.residency)
                check_companions(read, config, registry.compiler)
                arriving.append(read)
    return Change(config=config, leaving=frozenset(before) - staying, arriving=tuple(arriving))


def leaving_lanes(registry: Registry, change: Change) -> list[Lane]:
    """Return the lanes of the models that leave."""
    return [lane for lane in registry.lanes if lane.model in change.leaving]


def release(registry: Registry, change: Change) -> None:
    """Free the memory of the models that leave, whose lanes are closed; for the thread of the devices."""
    staying = [model for name, model in registry.models.items() if name not in change.leaving]
    for name in change.leaving & registry.models.keys():
        discard(registry.models[name], staying)
    for lane in leaving_lanes(registry, change):
        registry.residency.release(lane)


def discard(model: LoadedModel, others: Collection[LoadedModel]) -> None:
    """Free the memory of a model, and that of its picture classifier where no other model uses it."""
    model.release()
    classifier = model.classifier
    if classifier is not None and classifier not in [other.classifier for other in others]:
        free_picture_classifier(classifier, model.residency)


def arrived(registry: Registry, change: Change) -> tuple[Registry, Mapping[str, EngineError]]:
    """Return the registry after the change, and the error of each model that cannot be used, by name."""
    staying = {name: model for name, model in registry.models.items() if name not in change.leaving}
    failures: dict[str, EngineError] = {}
    new: dict[str, LoadedModel] = {}
    for read in change.arriving:
        name = read.spec.offer.model
        try:
            new[name] = _arrived(registry, change, read, staying | new)
        except Exception as error:
            logger.exception("%s cannot be used", name)
            registry.compiler.tell(f"{name} cannot be used: {first_line(error)}")
            failures[name] = as_engine_error(error)
    found = staying | new
    specs = tuple(spec for spec in change.config.models if spec.offer.model in found)
    models = {spec.offer.model: found[spec.offer.model] for spec in specs}
    return registry.changed(specs, models), failures


def _arrived(
    registry: Registry, change: Change, read: ReadModel, others: Mapping[str, LoadedModel]
) -> LoadedModel:
    """Take one model into use."""
    name, residency = read.spec.offer.model, registry.residency
    with refused_by_devices():
        model = use_model(read, registry.compiler, residency)
        config = replace(change.config, models=(read.spec,))
        try:
            use_companions(config, {**others, name: model}, registry.compiler, residency)
        except Exception:
            residency.owner.do(partial(discard, model, [*others.values()]))
            raise
    return model
