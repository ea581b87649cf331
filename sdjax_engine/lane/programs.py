"""The compiled programs of one lane: their shapes, how arguments are spread and donated.

`denoising/traced.py` has the functions. They are compiled from shapes: until a program is called, a lane
needs no memory on the devices. The program `encode` belongs to the model (see `model/loaded.py`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.compiling.compiler import Compiler, CompilingStopped, Program, code_memory, working_memory
from sdjax_engine.denoising import estimates, evaluations, traced
from sdjax_engine.denoising.state import Newcomer, SamplerState, SeatInputs, SeatState, StartPicture
from sdjax_engine.errors import first_line
from sdjax_engine.families.family import Conditioning, Parameters
from sdjax_engine.lane.runs import ProgramForm, SeatGrid, are_ready
from sdjax_engine.memory import devices
from sdjax_engine.memory.devices import BY_SEAT, REPLICATED
from sdjax_engine.memory.ledger import Need
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.model.pictures import Fitted
from sdjax_engine.model.prepare import PreparedControl, PreparedImagePrompt
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.request import MAX_VARIATIONS, Lane
from sdjax_engine.samplers import MAX_ROWS, ROW
from sdjax_engine.samplers.tables import HISTORY
from sdjax_engine.weights import Component


@dataclass(frozen=True, kw_only=True)
class LaneShapes:
    """The shapes of the arrays of one lane with `seats_per_device` seats on each device.

    Every array is spread over the devices along its first axis. `conditioning` is what the compiled program
    `condition` returns; the arrays of the seats have its shapes. `control` and `image` are the same of these
    programs, None where the model has no ControlNets or no image prompts.
    """

    lane: Lane
    model: LoadedModel
    seats_per_device: int
    conditioning: Conditioning | None = None
    control: Conditioning | None = None
    image: Conditioning | None = None

    @property
    def key(self) -> object:
        """What the programs depend on besides their arguments, as plain data."""
        return [self.lane.height, self.lane.width, self.model.key]

    @property
    def devices(self) -> int:
        """How many devices the lane is spread over."""
        return self.model.device_count

    @property
    def seats(self) -> int:
        """How many seats there are on all devices."""
        return self.devices * self.seats_per_device

    @property
    def halves(self) -> int:
        """How many texts a seat has."""
        return self.model.halves(self.lane)

    @property
    def grid(self) -> SeatGrid:
        """How many devices, seats and texts there are."""
        return SeatGrid(devices=self.devices, seats_per_device=self.seats_per_device, halves=self.halves)

    @property
    def latents(self) -> tuple[int, int, int]:
        """Height, width and channels of a latent picture."""
        latents = self.model.networks.latents
        return self.lane.height // latents.cell, self.lane.width // latents.cell, latents.channels

    @property
    def state(self) -> SeatState:
        """The state of all seats, once the conditioning is known."""
        count = self.seats
        sampler = SamplerState(
            x=self.rows(count, *self.latents),
            r=self.rows(count, *self.latents),
            history=self.rows(count, HISTORY, *self.latents),
        )
        inputs = SeatInputs(
            noise=self.rows(count, *self.latents),
            start=self.start(count),
            conditioning=self.like(self.conditioning, count),
            loras=self.loras(count),
            seed=self.rows(count, dtype=np.uint32),
            rows=self.rows(count, MAX_ROWS, ROW),
        )
        return SeatState(sampler=sampler, inputs=inputs)

    def given(self, *, control: bool = True, image: bool = True) -> SeatState:
        """The state of all seats with the conditioning of given pictures, where the model takes such."""
        state = self.state
        of_control, of_image = (
            self.like(each, self.seats) if wanted else None
            for each, wanted in ((self.control, control), (self.image, image))
        )
        return state._replace(inputs=state.inputs._replace(control=of_control, image=of_image))

    def like(self, conditioning: Conditioning | None, count: int) -> Any:
        """Return the conditioning of so many seats."""
        return jax.tree.map(lambda leaf: self.rows(count, *leaf.shape[1:], dtype=leaf.dtype), conditioning)

    @property
    def bytes_per_device(self) -> int:
        """The memory that the seats need on each device, in bytes."""
        leaves: list[jax.ShapeDtypeStruct] = jax.tree.leaves(self.given())
        return int(sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)) // self.devices

    def loras(self, count: int) -> LoraRows:
        """Return the LoRA rows of so many seats."""
        rank = self.model.loras.rank
        return LoraRows(rows=self.rows(count, rank, dtype=np.int32), scales=self.rows(count, rank))

    def start(self, count: int) -> StartPicture:
        """Return the starts of so many pictures."""
        height, width, _ = self.latents
        return StartPicture(
            latents=self.rows(count, *self.latents),
            mask=self.rows(count, height, width, 1),
            channels=self.rows(count, height, width, self.model.networks.denoiser.further_channels),
        )

    @property
    def newcomer(self) -> Newcomer[Any]:
        """One newcomer for each device."""
        count = self.devices
        return Newcomer(
            seat=self.rows(count, dtype=np.int32),
            seed=self.rows(count, dtype=np.uint32),
            variation_seeds=self.rows(count, MAX_VARIATIONS, dtype=np.uint32),
            variation_strengths=self.rows(count, MAX_VARIATIONS),
            init_noise_sigma=self.rows(count),
            init_latent_scale=self.rows(count),
            loras=self.loras(count),
            rows=self.rows(count, MAX_ROWS, ROW),
        )

    @property
    def pictures(self) -> tuple[Any, Any]:
        """Pixels and mask of one start picture for each device."""
        count, height, width = self.devices, self.lane.height, self.lane.width
        return (
            self.rows(count, height, width, 3, dtype=np.uint8),
            self.rows(count, height, width, dtype=np.bool_),
        )

    def start_pictures(self, by_device: Mapping[int, Fitted | None]) -> tuple[Any, Any]:
        """Return pixels and mask of the start picture of each device, as `pictures` says.

        Without a mask, or without a picture, the whole picture is repainted.
        """
        pixels, mask = zeros(self.pictures)
        mask[:] = True
        for device, picture in by_device.items():
            if picture is not None:
                pixels[device], mask[device] = picture.pixels, picture.mask
        return pixels, mask

    def control_pictures(self, by_device: Mapping[int, PreparedControl]) -> tuple[Any, Any]:
        """Return pixels and type of the control picture of each device."""
        pixels, kinds = zeros((self.pictures[0], self.newcomer.seat))
        for device, one in by_device.items():
            pixels[device], kinds[device] = one.pixels, one.kind
        return pixels, kinds

    def strengths(self, by_device: Mapping[int, PreparedImagePrompt]) -> Any:
        """Return the strength of the image prompt of each device."""
        found = zeros(self.rows(self.devices))
        for device, one in by_device.items():
            found[device] = one.strength
        return found

    def rows(self, *shape: int, dtype: npt.DTypeLike = np.float32) -> Any:
        """Return the shape of an array whose rows are spread over the devices."""
        return devices.spread_shape(shape, dtype, self.model.mesh)


def zeros(shapes: Any) -> Any:
    """Return arrays of zeros on the host of these shapes."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Estimates of the finished pictures of all seats, being copied to the host."""

    rows: jax.Array = field(repr=False)

    @property
    def ready(self) -> bool:
        """Whether the devices have made them."""
        return are_ready([self.rows])

    def fetch(self) -> npt.NDArray[Any]:
        """Wait for the estimates; raises the devices' error.

        They are latents (seats, h, w, c) float32, or previews (seats, h, w, 3) uint8 where the lane has a
        decoder.
        """
        return np.asarray(self.rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreviewProgram:
    """The compiled program; with the parameters of a `decoder` the estimates are decoded."""

    program: Program
    decoder: Parameters | None = field(default=None, repr=False)

    @property
    def decodes(self) -> bool:
        """Whether the estimates are pixels."""
        return self.decoder is not None

    def queue(self, state: SeatState, weights: Mapping[int, tuple[float, float]]) -> Estimates:
        """Estimate the finished pictures of the seats in `weights`, and start to copy them to the host."""
        x, _, history = state.sampler
        by_seat = np.zeros((x.shape[0], 2), np.float32)
        for seat, each in weights.items():
            by_seat[seat] = each
        arguments = (x, history, state.inputs.start, by_seat)
        rows = self.program(*arguments) if self.decoder is None else self.program(self.decoder, *arguments)
        rows.copy_to_host_async()
        return Estimates(rows=rows)


def compile_previews(shapes: LaneShapes, compiler: Compiler, *, decoded: bool) -> PreviewProgram:
    """Compile the program of previews: with the model's decoder if `decoded`, unless compiling that fails."""
    decoder = shapes.model.preview_decoder
    if decoded and decoder is not None:
        try:
            program = compile_decoded_estimate(shapes, compiler, decoder)
            return PreviewProgram(program=program, decoder=decoder.parameters)
        except CompilingStopped:
            raise
        except Exception as error:
            logger.exception("the preview decoder of %s cannot be compiled", shapes.lane)
            compiler.tell(f"{shapes.lane} makes coarse previews without its decoder: {first_line(error)}")
    return PreviewProgram(program=compile_estimate(shapes, compiler))


def compile_estimate(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(x, history, start, weights) → estimates of the finished latents (seats, h, w, c)."""
    return compiler.compile(
        f"{shapes.lane} estimate",
        estimates.estimate,
        *arguments_of(shapes),
        specs=(BY_SEAT,) * 4,
        key=shapes.key,
    )


def compile_decoded_estimate(shapes: LaneShapes, compiler: Compiler, decoder: Component) -> Program:
    """(decoder's parameters, x, history, start, weights) → previews (seats, h, w, 3)."""
    decode = partial(
        estimates.decoded_estimate,
        decoder.blueprint,
        float(decoder.config["scaling_factor"]),
        counted_by_host=shapes.model.counted_by_host,
    )
    return compiler.compile(
        f"{shapes.lane} preview",
        decode,
        decoder.parameters,
        *arguments_of(shapes),
        specs=(REPLICATED, *[BY_SEAT] * 4),
        key=[shapes.key, decoder.config],
        retry_shortage=True,
    )


def arguments_of(shapes: LaneShapes) -> tuple[Any, ...]:
    """Return the shapes of x, history, start and weights."""
    state = shapes.state
    return state.sampler.x, state.sampler.history, state.inputs.start, shapes.rows(shapes.seats, 2)


@dataclass(frozen=True, kw_only=True)
class LanePrograms:
    """One lane's compiled programs for the seats of `shapes`; without `previews` it makes none.

    `denoise` are those of `SeatGrid.all_suits`.
    """

    shapes: LaneShapes
    condition: Program
    empty: Program
    admit: Program
    denoise: Mapping[ProgramForm, Program]
    take: Program
    decode: Program
    previews: PreviewProgram | None = None
    control: GivenPrograms | None = None
    image: GivenPrograms | None = None

    def need(
        self, *later: Program | None, decode_in_float32: Program | None, decodes_in_parallel: bool
    ) -> Need:
        """Return the memory of each device for the seats and for all programs.

        One program runs at a time; with `decodes_in_parallel` a decoding runs at the same time as another
        program. The output of `empty` is the seats' own memory. `later` and `decode_in_float32` are programs
        that the lane got later.
        """
        previews = None if self.previews is None else self.previews.program
        decoding = loaded(self.decode, decode_in_float32)
        given = [program for each in (self.control, self.image) if each is not None for program in each.all]
        others = loaded(
            *(self.condition, self.admit, *self.denoise.values(), self.take, previews, *given, *later)
        )
        most = [max(map(working_memory, programs)) for programs in (decoding, others)]
        code = sum(map(code_memory, {self.empty, *decoding, *others}))
        return Need(
            held=self.shapes.bytes_per_device + code, working=sum(most) if decodes_in_parallel else max(most)
        )


@dataclass(frozen=True, kw_only=True)
class GivenPrograms:
    """The programs for the admission of control pictures, or of image prompts."""

    condition: Program
    write: Program

    @property
    def all(self) -> tuple[Program, ...]:
        """All of them."""
        return self.condition, self.write


def loaded(*programs: Program | None) -> set[Program]:
    """Return those of the programs that there are."""
    return {program for program in programs if program is not None}


@dataclass(kw_only=True)
class LaterPrograms:
    """Programs that a lane may get while it serves requests.

    Without `begin` the lane's pictures start from noise only. `decode_in_float32` decodes a picture again
    whose values were not finite, where that makes a difference. `denoise` has the programs of further forms,
    by the number of seats of each device. No program is removed.
    """

    begin: Program | None = None
    decode_in_float32: Program | None = None
    denoise: dict[int, dict[ProgramForm, Program]] = field(default_factory=dict)


def compile_lane(
    shapes: LaneShapes,
    compiler: Compiler,
    later: LaterPrograms | None = None,
    *,
    previews: bool = False,
    decoded: bool = False,
) -> LanePrograms:
    """Compile the programs of a lane: first `condition`, and the slowest in a second thread.

    If `later` is given, its `begin` is compiled too. With `previews` the program of previews is compiled;
    with `decoded` it decodes them.
    """
    condition = compile_condition(shapes, compiler)
    shapes = replace(shapes, conditioning=condition.out_info)
    networks, control, image = shapes.model.networks, None, None
    if networks.control is not None:
        control = compile_control(shapes, compiler)
        shapes = replace(shapes, control=control.out_info)
    if networks.image_prompts is not None:
        image = compile_image(shapes, compiler)
        shapes = replace(shapes, image=image.out_info)
    with ThreadPoolExecutor(1, thread_name_prefix="compile") as pool:
        forms = shapes.grid.all_suits(control=control is not None, image=image is not None)
        denoise = {form: pool.submit(compile_evaluations, shapes, compiler, form) for form in forms}
        if later is not None:
            later.begin = compile_begin(shapes, compiler)
        return LanePrograms(
            shapes=shapes,
            condition=condition,
            empty=compile_empty(shapes, compiler),
            admit=compile_admit(shapes, compiler),
            take=compile_take(shapes, compiler),
            decode=compile_decode(shapes, compiler),
            previews=compile_previews(shapes, compiler, decoded=decoded) if previews else None,
            control=None
            if control is None
            else GivenPrograms(
                condition=control,
                write=compile_write(shapes, compiler, "write", shapes.control, shapes.model.control_key),
            ),
            image=None
            if image is None
            else GivenPrograms(
                condition=image,
                write=compile_write(shapes, compiler, "write image", shapes.image, shapes.model.image_key),
            ),
            denoise={form: each.result() for form, each in denoise.items()},
        )


def compile_control(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(ControlNet's parameters, picture, type, encoding of each text) → `Conditioning` of one seat."""
    model, lane = shapes.model, shapes.lane
    assert model.networks.control is not None, "only a model with ControlNets has the program"
    return compiler.compile(
        f"{lane} control",
        partial(traced.control, model.networks.control),
        *(a_controlnet(model), shapes.pictures[0], shapes.newcomer.seat),
        *[model.encoding] * shapes.halves,
        specs=(REPLICATED, *[BY_SEAT] * (2 + shapes.halves)),
        key=[shapes.key, model.control_key],
        apart=True,
    )


def compile_image(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(image prompt's parameters, strength, encoded picture for each text) → `Conditioning` of one seat."""
    model = shapes.model
    assert model.networks.image_prompts is not None, "only a model with image prompts has the program"
    return compiler.compile(
        f"{shapes.lane} image",
        partial(traced.image, model.networks.image_prompts),
        *(model.shapes.image_prompt, shapes.rows(shapes.devices)),
        *[model.look] * shapes.halves,
        specs=(REPLICATED, *[BY_SEAT] * (1 + shapes.halves)),
        key=[shapes.key, model.image_key],
        apart=True,
    )


def compile_write(
    shapes: LaneShapes, compiler: Compiler, name: str, given: Conditioning | None, key: object
) -> Program:
    """(conditioning of given pictures, that of one seat, seat) → conditioning of given pictures."""
    return compiler.compile(
        f"{shapes.lane} {name}",
        traced.write,
        *(shapes.like(given, shapes.seats), shapes.like(given, shapes.devices)),
        shapes.newcomer.seat,
        specs=(BY_SEAT,) * 3,
        donate=(0,),
        key=[shapes.key, key],
        apart=True,
    )


def a_controlnet(model: LoadedModel) -> Parameters:
    """Return the shapes of a ControlNet's parameters: those of a model are of one architecture."""
    return next(iter(model.shapes.controlnets.values()))


def compile_begin(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(autoencoder's parameters, pixels, mask, seed) → `StartPicture`."""
    model, lane = shapes.model, shapes.lane
    autoencoder, _ = model.shapes.decoding
    pixels, mask = shapes.pictures
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} begin",
        partial(traced.begin, model.networks, (1, *shapes.latents)),
        *(autoencoder, pixels, mask, shapes.newcomer.seed),
        specs=(REPLICATED, *[BY_SEAT] * 3),
        key=shapes.key,
        apart=True,
        retry_shortage=True,
    )


def compile_empty(shapes: LaneShapes, compiler: Compiler) -> Program:
    """() → `SeatState`."""
    state, seats = shapes.given(), shapes.seats_per_device
    return compiler.compile(
        f"{shapes.lane} empty",
        partial(traced.empty, shapes.model.networks.denoiser, state, seats),
        specs=(),
        key=[shapes.key, seats, [f"{leaf.dtype} {leaf.shape}" for leaf in jax.tree.leaves(state)]],
    )


def compile_condition(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(denoiser's parameters, LoRAs, latents of references, encodings) → `Conditioning` of one seat."""
    model, lane = shapes.model, shapes.lane
    references = [shapes.rows(shapes.devices, *shapes.latents)] * lane.references
    return compiler.compile(
        f"{lane} condition",
        partial(traced.condition, model.networks.denoiser, (lane.height, lane.width), lane.references),
        *(model.shapes.denoiser, shapes.loras(shapes.devices)),
        *references,
        *[model.encoding] * shapes.halves,
        specs=(REPLICATED, *[BY_SEAT] * (1 + lane.references + shapes.halves)),
        key=[shapes.key, lane.references],
        apart=True,
    )


def compile_admit(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(state, conditioning, start, newcomer) → state."""
    conditioning = shapes.like(shapes.conditioning, shapes.devices)
    return compiler.compile(
        f"{shapes.lane} admit",
        traced.admit,
        *(shapes.state, conditioning, shapes.start(shapes.devices), shapes.newcomer),
        specs=(BY_SEAT,) * 4,
        donate=(0,),
        key=shapes.key,
        apart=True,
    )


def compile_evaluations(shapes: LaneShapes, compiler: Compiler, form: ProgramForm) -> Program:
    """(denoiser's parameters, sampler's state, seats' inputs, start, stop) → (sampler's state, evaluations).

    Where the host counts, one call is one evaluation. Where the form does not compute every row, the seats
    and rows of `RowIndices` come before start and stop.
    """
    model, every_row = shapes.model, form.rows == shapes.grid.rows_per_device
    seats = min(form.rows, shapes.seats_per_device)
    of_seats = shapes.rows(shapes.devices * seats, dtype=np.int32)
    which = () if every_row else (of_seats, shapes.rows(shapes.devices * form.rows, dtype=np.int32))
    of_rows = (*which, of_seats, of_seats)
    function = evaluations.denoise if every_row else evaluations.denoise_some
    network, bank = model.shapes.denoiser
    parameters = evaluations.OfEvaluations(
        denoiser=(network, bank if form.loras else {}), control=a_controlnet(model) if form.control else {}
    )
    suits_all = form == shapes.grid.suits_all(control=form.control, image=form.image)
    given = [[model.control_key] * form.control, [model.image_key] * form.image]
    return compiler.compile(
        f"{shapes.lane} denoise{form.given if suits_all else f', {form}'}",
        partial(function, model.networks, counted_by_host=model.counted_by_host),
        *(parameters, *shapes.given(control=form.control, image=form.image), *of_rows),
        specs=(REPLICATED, *[BY_SEAT] * (2 + len(of_rows))),
        donate=(1,),
        key=[shapes.key, *given] if form.control or form.image else shapes.key,
        options=devices.network_options(model.mesh),
    )


def compile_take(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(x, seat) → latents (devices, h, w, c)."""
    lane = shapes.lane
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} take",
        traced.take,
        *(shapes.state.sampler.x, shapes.newcomer.seat),
        specs=(BY_SEAT, BY_SEAT),
        key=shapes.key,
    )


def compile_decode(shapes: LaneShapes, compiler: Compiler, *, in_float32: bool = False) -> Program:
    """(parameters of autoencoder and safety checker, latents of a picture) → `Decoded`."""
    model, lane = shapes.model, shapes.lane
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} decode{' in float32' * in_float32}",
        partial(traced.decode, model.networks.autoencoder, model.judges, in_float32=in_float32),
        *(model.shapes.decoding, shapes.rows(shapes.devices, *shapes.latents)),
        specs=(REPLICATED, BY_SEAT),
        key=shapes.key,
        apart=True,
        retry_shortage=True,
    )
