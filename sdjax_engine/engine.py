"""The engine: open it, submit requests, get pictures.

    with Engine.open(config, report=print) as engine:
        image = engine.submit(request).result()

Everything that touches the devices after `open` happens on one thread, whose loop is in `loop.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import jax

from sdjax_engine import devices, programs, room
from sdjax_engine.config import EngineConfig, Seating
from sdjax_engine.desks import Desk
from sdjax_engine.executables import Executables
from sdjax_engine.lanes import DeviceLane
from sdjax_engine.loaded import LoadedModel
from sdjax_engine.loras import LoraBank
from sdjax_engine.models.attention_backend import found_backend
from sdjax_engine.models.attention_choice import describe
from sdjax_engine.programs import Compiler
from sdjax_engine.request import DevicesFailed, Image, InvalidRequest, Lane, Offer, OnProgress, Request
from sdjax_engine.residency import Residency, usable_memory
from sdjax_engine.room import FoundSeats, open_lane
from sdjax_engine.seats import Seats, suitable_seats
from sdjax_engine.thread import PaintingThread
from sdjax_engine.tickets import Ticket
from sdjax_engine.weights import load_checkpoint
from sdjax_engine.whole_batch import WholeBatchSeats
from sdjax_engine.wording import first_line

Report = Callable[[str], None]
Clock = Callable[[], float]


class Engine:
    """Paints requests on all devices at once; every method may be called from any thread."""

    def __init__(
        self,
        models: Mapping[str, LoadedModel],
        desks: Mapping[Lane, Desk],
        clock: Clock,
        *,
        spares: int = 0,
        stuck_after: float = 0.0,
    ) -> None:
        self._models = models
        self._thread = PaintingThread(desks, clock=clock, spares=spares, stuck_after=stuck_after)
        self._thread.start()

    @classmethod
    def open(cls, config: EngineConfig, *, report: Report, clock: Clock = time.perf_counter) -> Self:
        """Load every model, compile the lanes wanted, and start.

        `report` is told line by line how the start-up goes. Raises UnreadableCheckpoint and DevicesFailed.
        """
        started = clock()
        devices.setup_cpu(config.cpu_devices)
        programs.use_cache(config.cache_dir)
        mesh = devices.open_mesh()
        for line in devices.report(mesh):
            report(line)
        report(describe(found_backend(), config.dtype))
        executables = Executables(config.cache_dir, mesh) if config.cache_dir else None
        compiler = Compiler(mesh=mesh, report=report, clock=clock, executables=executables)
        residency = Residency(mesh, usable_memory(mesh, config.device_memory), clock=clock)
        try:
            models = _load(config, compiler, residency)
            desks = _compile(models, config, compiler, residency)
        except jax.errors.JaxRuntimeError as error:  # their memory is too small, say
            raise DevicesFailed(f"The devices cannot hold what is offered: {first_line(error)}") from error
        report(f"ready after {clock() - started:.1f} s")
        return cls(models, desks, clock, spares=config.spares, stuck_after=config.stuck_after)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What each model takes, in the order of the configuration."""
        return tuple(model.offer for model in self._models.values())

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes that are served."""
        return tuple(self._thread.desks)

    def capacity(self, lane: Lane) -> int:
        """How many images of this lane are painted at once; KeyError for a lane that is not served."""
        return self._thread.desks[lane].device.seats

    def seconds_per_image(self, lane: Lane) -> float | None:
        """How long images of this lane took lately from their seat to their pixels; None before the first."""
        return self._thread.desks[lane].seconds_per_image

    def submit(self, request: Request, *, on_progress: OnProgress | None = None) -> Future[Image]:
        """Put the request in line.

        The future always ends: with the image, with PaintingFailed, cancelled, or with EngineClosed should
        the engine itself break. `on_progress` is called on the engine's thread at each run's end, as are the
        future's callbacks: keep them short. Raises InvalidRequest and EngineClosed.
        """
        model = self._models.get(request.model)
        if model is None:
            raise InvalidRequest("model", value=request.model, choices=", ".join(self._models))
        prepared = model.prepare(request)
        if request.lane not in self._thread.desks:
            raise InvalidRequest("lane", value=request.lane, choices=", ".join(map(str, self._thread.desks)))
        if prepared.picture is not None and not self._thread.desks[request.lane].device.starts_from_pictures:
            choices = ", ".join(map(str, self._thread.desks))
            raise InvalidRequest("lane", value=f"{request.lane} from a picture", choices=choices)
        return self._thread.submit(prepared, on_progress)

    def cancel(self, future: Future[Image]) -> bool:
        """Give up an image, waiting or half painted; False when it has already ended."""
        return future.cancel()

    def close(self, *, drain: bool) -> None:
        """Take no more requests and return when the thread has ended.

        With `drain`, whoever is in line is painted first; without, every image not yet finished is
        cancelled, also while another thread waits for a draining close.
        """
        self._thread.close(drain=drain)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=error is None)


def lanes(offer: Offer) -> tuple[Lane, ...]:
    """Every lane that requests within this offer can be in, the most likely first."""
    usual = offer.guidance_scale > 1
    return tuple(
        Lane(model=offer.model, height=height, width=width, guided=guided)
        for guided in (usual, not usual)
        for width, height in offer.sizes
    )


def make_seats(
    config: EngineConfig, *, devices: int, seats_per_device: int, pad_idle_devices: bool
) -> Seats[Ticket]:
    """Return empty seats, as the configuration wants them taken."""
    if config.seating is Seating.WHOLE_BATCH:
        return WholeBatchSeats(
            devices=devices,
            seats_per_device=seats_per_device,
            pad_idle_devices=pad_idle_devices,
            batch_wait=config.batch_wait,
        )
    return Seats(devices=devices, seats_per_device=seats_per_device, pad_idle_devices=pad_idle_devices)


def _load(config: EngineConfig, compiler: Compiler, residency: Residency) -> dict[str, LoadedModel]:
    models = {}
    for spec in config.models:
        put = residency.arrivals().put
        compiler.report(f"loading {spec.offer.model} from {spec.source}")
        checkpoint = load_checkpoint(
            spec.source,
            dtype=config.dtype,
            revision=spec.revision,
            variant=spec.variant,
            safety_checker=spec.safety_checker,
            put=put,
            cache_dir=config.cache_dir,
            report=compiler.report,
        )
        loras = LoraBank.load(spec.loras, checkpoint, put, rank=spec.lora_rank)
        if spec.loras:
            compiler.report(f"LoRAs of {spec.offer.model}: {loras}")
        models[spec.offer.model] = LoadedModel(spec.offer, checkpoint, compiler, loras, residency)
    return models


def _compile(
    models: Mapping[str, LoadedModel], config: EngineConfig, compiler: Compiler, residency: Residency
) -> dict[Lane, Desk]:
    """Compile the lanes wanted, as many at once as there are cores."""
    every = config.lanes
    if every is None:
        every = tuple(lane for model in models.values() for lane in lanes(model.offer))
    on_cpu = devices.is_cpu(compiler.mesh)
    first = config.seats_per_device or suitable_seats(on_cpu=on_cpu)
    facts = [
        *(list(map(str, every)), config.dtype, config.start_pictures, residency.budget),
        *([model.fingerprint for model in models.values()], devices.report(compiler.mesh)[0]),
    ]
    found = FoundSeats(folder=config.cache_dir, facts=facts)

    def device(lane: Lane) -> DeviceLane:
        def open_with(seats_per_device: int) -> DeviceLane:
            return DeviceLane(
                lane,
                models[lane.model],
                seats_per_device=seats_per_device,
                compiler=compiler,
                start_pictures=config.start_pictures,
            )

        return open_lane(open_with, lane, residency, first, found)

    with ThreadPoolExecutor(devices.usable_cores(), thread_name_prefix="compile") as pool:
        opened = dict(zip(every, pool.map(device, every), strict=True))
        list(pool.map(DeviceLane.prepare_retry, opened.values()))
    residency.bring(every[0].model)  # the others make room, now that it is known how much there must be
    for line in (*room.lines(opened, residency), *residency.lines()):
        compiler.report(line)
    return {
        lane: Desk(
            device=each,
            seats=make_seats(
                config,
                devices=devices.device_count(compiler.mesh),
                seats_per_device=each.seats_per_device,
                pad_idle_devices=not on_cpu,
            ),
        )
        for lane, each in opened.items()
    }
