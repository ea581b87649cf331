"""One lane on the devices: its seats, the calls of its programs, and the pictures' way to the host.

A picture goes this way: `admit` (each new text is encoded, a start picture too) → `denoise` for each run →
`decode` → `Picture.fetch`. `lane/programs.py` has the compiled programs.

XLA's client for the CPU runs the programs that one thread has queued one after the other on a device,
whatever they depend on, and those of different threads in parallel. Denoising and decoding each leave cores
idle: running them at the same time uses both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.compiling.compiler import Compiler, Program
from sdjax_engine.compiling.per_device import DaemonThread, Shares, call_on
from sdjax_engine.denoising.evaluations import OfEvaluations
from sdjax_engine.denoising.state import SeatState, StartPicture
from sdjax_engine.denoising.traced import Decoded
from sdjax_engine.errors import DevicesFailed
from sdjax_engine.families.family import Conditioning
from sdjax_engine.lane.programs import (
    Estimates,
    LanePrograms,
    LaneShapes,
    LaterPrograms,
    compile_begin,
    compile_decode,
    compile_evaluations,
    compile_lane,
    compile_previews,
    zeros,
)
from sdjax_engine.lane.runs import (
    Newcomers,
    Occupant,
    ProgramForm,
    Run,
    are_ready,
    calls_of,
    make_turn,
    newcomers_by_device,
    occupant_of,
)
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import ParameterGroup
from sdjax_engine.model.loaded import DECODING, DENOISER, IMAGE_PROMPT, LoadedModel, controlnet_group
from sdjax_engine.model.picture_classifier import PictureClassifier
from sdjax_engine.model.prepare import Prepared
from sdjax_engine.models.config import CONCEPTS, is_found
from sdjax_engine.request import Lane, PictureScores, SafetyScores

Verdicts = tuple[SafetyScores | None, PictureScores | None]
"""What the safety checker and the picture classifier say; None where the model has none."""


def read_safety_scores(scores: npt.NDArray[np.float32]) -> SafetyScores:
    """Read a row of the safety checker: its concepts, then those that call for special care."""
    concepts, special_care = scores[:CONCEPTS], scores[CONCEPTS:]
    return SafetyScores(
        flagged=bool(np.asarray(is_found(concepts)).any()),
        concepts=tuple(map(float, concepts)),
        special_care=tuple(map(float, special_care)),
    )


def why_no_picture(latents: npt.NDArray[np.float32]) -> str:
    """Return the reason, as a sentence, why latents (h, w, c) made a picture that is not finite."""
    if not np.isfinite(latents).all():
        return (
            "The steps of this picture came to values that are no numbers: "
            "another seed, sampler or guidance may work."
        )
    return "The picture decoder made values that are no numbers, in float32 too: another seed may work."


NO_PICTURE = b""
"""The key of `LoadedModel.looks` for negative prompts."""
Latents = jax.Array | npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """A decoded picture, being copied to the host; every array has one row, `latents` are (1, h, w, c).

    `probabilities` are those of the `classifier`; without one both are None.
    """

    latents: Latents = field(repr=False)
    pixels: jax.Array = field(repr=False)
    finite: jax.Array = field(repr=False)
    scores: jax.Array = field(repr=False)
    probabilities: jax.Array | None = field(default=None, repr=False)
    classifier: PictureClassifier | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Start to copy to the host what is read there."""
        for array in (self.pixels, self.finite, self.scores, self.probabilities):
            if array is not None:
                array.copy_to_host_async()

    @property
    def ready(self) -> bool:
        """Whether the devices have decoded and judged it."""
        return are_ready([self.pixels, self.finite, self.scores, self.probabilities])

    def fetch(self) -> npt.NDArray[np.uint8] | None:
        """Wait for the pixels, uint8 (height, width, 3); None where the picture is not finite."""
        return np.array(np.asarray(self.pixels)[0]) if np.asarray(self.finite)[0] else None

    def fetch_latents(self) -> npt.NDArray[np.float32]:
        """Wait for the latents that it was decoded from, (h, w, c)."""
        return np.array(np.asarray(self.latents)[0])

    def fetch_verdicts(self) -> Verdicts:
        """Wait for what the safety checker and the picture classifier say."""
        scores, classified = np.asarray(self.scores)[0], None
        if self.classifier is not None and self.probabilities is not None:
            classified = self.classifier.read(np.asarray(self.probabilities)[0])
        return read_safety_scores(scores) if scores.size else None, classified


Moves = Sequence[ParameterGroup]
"""Parameters on their way to the devices."""

Work = Run | Estimates | Picture
"""Work that the devices have been given; it is `ready` once they have done it."""


class DeviceLane:
    """The seats of one lane, spread over the devices, and the programs that work on them.

    A new lane has its programs compiled and no memory on the devices: claim its `need`, then `reset`, which
    allocates the seats. The thread that owns the devices calls every method but `prepare_…` and
    `give_up_decoder`, which compile. No call waits for the devices: work is queued in the order of the calls,
    and an error of the devices is raised where their results are read. After an error, `reset` before
    anything else.
    """

    # Programs are called with the host's arrays: putting each on the devices first takes ten times as long.

    def __init__(
        self,
        lane: Lane,
        model: LoadedModel,
        *,
        seats_per_device: int,
        compiler: Compiler,
        start_pictures: bool = True,
        previews: bool = False,
    ) -> None:
        self.lane = lane
        self._model = model
        self._compiler = compiler
        self._beside = DaemonThread("sdjax-decode") if devices.is_cpu(model.mesh) else None
        self._later = LaterPrograms()
        self._makes_previews = previews
        self._decodes_previews = previews and model.preview_decoder is not None
        shapes = LaneShapes(lane=lane, model=model, seats_per_device=seats_per_device)
        with_begin = start_pictures or bool(model.networks.denoiser.further_channels or lane.references)
        self._use(self._compiled(shapes, self._later if with_begin else None))
        self._nobody: Newcomers = zeros(shapes.newcomer)
        start = zeros(shapes.start(shapes.devices))
        start.mask[:] = 1  # without a start picture the whole picture is painted
        self._noise_alone: StartPicture = start
        self._state: SeatState | None = None
        self._control: Conditioning | None = None  # of all seats, where the model has ControlNets
        self._image: Conditioning | None = None  # of all seats, where the model has image prompts
        self._occupants: defaultdict[int, Occupant] = defaultdict(Occupant)  # by seat

    def _use(self, programs: LanePrograms) -> None:
        shapes = programs.shapes
        self._shapes, self._programs = shapes, programs
        self.seats, self.seats_per_device = shapes.seats, shapes.seats_per_device
        self._grid = shapes.grid

    def _compiled(self, shapes: LaneShapes, later: LaterPrograms | None = None) -> LanePrograms:
        return compile_lane(
            *(shapes, self._compiler, later), previews=self._makes_previews, decoded=self._decodes_previews
        )

    @property
    def need(self) -> Need:
        """The memory of each device that the seats hold, and that the programs need while they run."""
        return self._need_with()

    @property
    def retries(self) -> bool:
        """Whether `decode_again` decodes with more precision than `decode`."""
        return self._later.decode_in_float32 is not None

    @property
    def fitted(self) -> bool:
        """Whether `prepare_forms` has made a program that costs less than the one that suits every run."""
        return bool(self._later.denoise.get(self.seats_per_device))

    @property
    def further_forms(self) -> list[ProgramForm]:
        """The forms of the programs that cost less than the one that suits every run."""
        return self._grid.further_forms(
            loras=self._model.adapts_denoiser,
            control=self._programs.control is not None,
            image=self._programs.image is not None,
        )

    @property
    def decodes_previews(self) -> bool:
        """Whether the estimates of `estimate` are pixels, made by the model's decoder of previews."""
        return self._programs.previews is not None and self._programs.previews.decodes

    @property
    def starts_from_pictures(self) -> bool:
        """Whether an image may start from a picture here."""
        return self._later.begin is not None

    @property
    def move_seconds(self) -> float:
        """How long `bring` takes the devices, as measured; 0 where the denoiser is on the devices."""
        return self._model.residency.move_seconds(self.lane.model, DENOISER)

    @property
    def text_seconds(self) -> float:
        """How long the devices are kept from the seats by `LoadedModel.text_seconds`; 0 without any."""
        return self._model.text_seconds

    def bring(self) -> None:
        """Begin to move the denoiser to the devices, if it is not there, before it is needed."""
        self._model.on_devices(DENOISER)

    def take_moves(self) -> Moves:
        """Return the parameters that earlier calls have begun to move to the devices, once."""
        return self._model.residency.take_moves()

    def finish_moves(self, moves: Moves, since: float) -> None:
        """Wait until the parameters have arrived for which the devices wait `since` that time."""
        self._model.residency.finish_moves(moves, since)

    def knows_texts(self, prepared: Prepared) -> bool:
        """Whether a request is admitted without the text encoders."""
        return self._model.knows_texts(prepared, self._grid.halves)

    def has_done(self, earlier: Sequence[Work]) -> bool:
        """Whether all `earlier` work and all work on the seats is done; False if `earlier` is empty."""
        done = bool(earlier) and are_ready(jax.tree.leaves(self._state))
        return done and all(work.ready for work in earlier)

    def admit(
        self,
        newcomers: Mapping[int, Prepared],
        earlier: Sequence[Work] = (),
        waiting: Iterable[Prepared] = (),
    ) -> bool:
        """Write newcomers into their seats: encoded texts, noise, tables, start pictures.

        Where the text encoders must be moved to the devices, the texts of the requests `waiting` for this
        lane or another of the model are encoded too, so that they are moved the more rarely. Returns whether
        the devices had done all `earlier` work before a wave of newcomers was queued.
        """
        with_start, waited = self._with_start(newcomers), False
        state = Shares.of(self._seated, self._model.mesh)
        model = self._model
        if not (model.has_text_encoders or all(map(self.knows_texts, newcomers.values()))):
            waited = self.has_done(earlier)
            model.encode_ahead(chain(newcomers.values(), waiting), self._grid.halves)
        for wave in self._grid.waves(newcomers):
            prepared = {device: newcomers[seat] for device, seat in wave.items()}
            inputs = newcomers_by_device(wave, newcomers, self._nobody, self._grid)
            self._occupants |= {seat: occupant_of(newcomers[seat], self._grid) for seat in wave.values()}
            begun = {device: prepared[device].picture for device, seat in wave.items() if seat in with_start}
            pictures = self._shapes.start_pictures(begun) if begun else ()
            waited = waited or self.has_done(earlier)
            encoded = [
                model.encodings.gather(
                    model.texts_on_devices, {device: one.texts[half] for device, one in prepared.items()}
                )
                for half in range(2)[-self._grid.halves :]
            ]
            given = *self._references(prepared, inputs), *encoded
            [denoiser] = model.on_devices(DENOISER)
            conditioning = call_on(self._programs.condition, wave.keys(), denoiser, inputs.loras, *given)
            start = Shares.of(self._noise_alone, self._model.mesh)
            if begun:
                [(autoencoder, _)] = model.on_devices(DECODING)
                start |= call_on(self._later.begin, begun, autoencoder, *pictures, inputs.seed)
            state |= call_on(self._programs.admit, wave.keys(), state, conditioning, start, inputs)
            self._state = state.together(self._model.mesh)
            self._admit_control(prepared, encoded, inputs)
            self._admit_image_prompts(prepared, inputs)
        return waited

    def _references(self, prepared: Mapping[int, Prepared], inputs: Newcomers) -> list[Shares]:
        """Encode the reference pictures of newcomers, by device, one after another."""
        begin, found = self._later.begin, []
        for number in range(self.lane.references):
            pictures = {device: one.references[number] for device, one in prepared.items()}
            arrays = self._shapes.start_pictures(pictures)
            [(autoencoder, _)] = self._model.on_devices(DECODING)
            encoded = call_on(begin, pictures, autoencoder, *arrays, inputs.seed)
            found.append(Shares({device: one.latents for device, one in encoded.items()}))
        return found

    def _admit_control(
        self, prepared: Mapping[int, Prepared], encoded: Sequence[Shares], inputs: Newcomers
    ) -> None:
        """Write the control pictures of newcomers, by device, into their seats."""
        programs = self._programs.control
        pictures = {device: one.control for device, one in prepared.items() if one.control is not None}
        if programs is None or not pictures:
            return
        arrays = self._shapes.control_pictures(pictures)
        control = Shares.of(self._control, self._model.mesh)
        for name in {one.controlnet for one in pictures.values()}:
            where = [device for device, one in pictures.items() if one.controlnet == name]
            [net] = self._model.on_devices(controlnet_group(name))
            rows = call_on(programs.condition, where, net, *arrays, *encoded)
            control |= call_on(programs.write, where, control, rows, inputs.seat)
        self._control = control.together(self._model.mesh)

    def _admit_image_prompts(self, prepared: Mapping[int, Prepared], inputs: Newcomers) -> None:
        """Write the image prompts of newcomers, by device, into their seats."""
        programs = self._programs.image
        prompts = {
            device: one.image_prompt for device, one in prepared.items() if one.image_prompt is not None
        }
        if programs is None or not prompts:
            return
        parameters, mesh = partial(self._model.on_devices, IMAGE_PROMPT), self._model.mesh
        pictures = {device: one.pixels for device, one in prompts.items()}
        of_texts = [dict.fromkeys(pictures, NO_PICTURE), pictures][-self._grid.halves :]
        looks = [self._model.looks.gather(lambda: parameters()[0], each) for each in of_texts]
        rows = call_on(
            programs.condition, prompts.keys(), *parameters(), self._shapes.strengths(prompts), *looks
        )
        image = Shares.of(self._image, mesh)
        image |= call_on(programs.write, prompts.keys(), image, rows, inputs.seat)
        self._image = image.together(mesh)

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> Run:
        """Make the evaluations from start up to stop in each of these seats."""
        mesh = self._model.mesh
        occupants = {seat: self._occupants[seat] for seat in spans}
        most = 0
        for call in calls_of(spans, self._denoising, occupants, self._grid):
            nets = [controlnet_group(call.given.controlnet)] if call.given.controlnet else []
            denoiser, *net = self._model.on_devices(DENOISER, *nets)
            parameters = OfEvaluations(denoiser=denoiser, control=net[0] if net else {})
            for turn in range(max(1, call.length) if self._model.counted_by_host else 1):
                state = self._seated
                inputs = state.inputs._replace(
                    control=self._control if call.given.controlnet else None,
                    image=self._image if call.given.image else None,
                )
                state = state._replace(inputs=inputs)
                sampler, done = make_turn(call.groups, parameters, state, turn, mesh)
                self._state = self._seated._replace(sampler=sampler)
            most = max(most, call.rows)
        return Run(done=done, rows=most)

    def estimate(self, weights: Mapping[int, tuple[float, float]]) -> Estimates:
        """Estimate the finished pictures of these seats, and start to copy them to the host.

        `weights` are those of `Table.estimates` after the seat's last evaluation.
        """
        assert self._programs.previews is not None, "a lane without previews is asked for none"
        return self._programs.previews.queue(self._seated, weights)

    def decode(self, seats: Sequence[int]) -> dict[int, Picture]:
        """Decode the pictures in these seats and start to copy them to the host."""
        latents = self._taken(seats)
        pictures: dict[int, Picture] = {}
        for wave in self._grid.waves(seats):
            decoded = self._decoded(
                self._programs.decode, {device: latents[seat] for device, seat in wave.items()}
            )
            pictures |= {seat: decoded[device] for device, seat in wave.items()}
        return pictures

    def decode_again(self, latents: npt.NDArray[np.float32]) -> Picture | None:
        """Decode latents (h, w, c) in float32; None unless `retries`."""
        program = self._later.decode_in_float32
        return None if program is None else self._decoded(program, {0: latents[None]})[0]

    def reset(self) -> None:
        """Empty every seat: free the devices' memory of all seats, then allocate it again."""
        self.free()
        self._occupants.clear()
        self._empty(self._programs)

    def _empty(self, programs: LanePrograms) -> None:
        """Allocate all seats, empty."""
        state: SeatState = programs.empty()
        self._control, self._image = state.inputs.control, state.inputs.image
        self._state = state._replace(inputs=state.inputs._replace(control=None, image=None))

    def halve(self) -> bool:
        """Use less memory after the devices had too little; False where that is not possible.

        Other models are evicted, and are never all resident together with this one again. A lane with more
        than one seat on each device gives up half of its seats, and compiles programs for the rest; for one
        with a single seat the model's own other groups are evicted likewise. Every seat is empty afterwards.
        If that fails, the lane keeps its seats, and needs a `reset`.
        """
        fewer, residency = self.seats_per_device // 2, self._model.residency
        moved = residency.leave_alone(self.lane.model)
        if not fewer:
            moved = moved or residency.leave_alone(self.lane.model, DENOISER)
            if moved:
                self.reset()
            return moved
        self.free()
        programs = self._compiled(replace(self._shapes, seats_per_device=fewer))
        self._empty(programs)
        self._use(programs)
        self._occupants.clear()
        self._claim(self.need)
        return True

    def give_up_decoder(self) -> bool:
        """Make coarse previews in place of decoded ones, before the lane is open; False without a decoder."""
        if not self.decodes_previews:
            return False
        self._decodes_previews = False
        previews = compile_previews(self._shapes, self._compiler, decoded=False)
        self._programs = replace(self._programs, previews=previews)
        return True

    def report_coarse_previews(self) -> None:
        """Report why previews are coarse."""
        self._compiler.tell(f"previews of {self.lane} are coarse: the devices have no room for a decoder")

    def prepare_pictures(self) -> None:
        """Compile the encoding of start pictures. Raises DevicesFailed where there is no memory for it."""
        begin = compile_begin(self._shapes, self._compiler)

        def use() -> None:
            if not self._claim(self._need_with(begin)):
                raise DevicesFailed(f"The devices have no memory for start pictures of {self.lane}.")
            self._later.begin = begin

        self._model.residency.owner.do(use)

    def prepare_forms(self) -> None:
        """Compile the programs that cost less than the one that suits every run, the cheapest first.

        Runs use each as soon as it is there. A program that there is no memory for is left out.
        """
        shapes = self._shapes

        def use(form: ProgramForm, program: Program) -> bool:
            fits = self._claim(self._need_with(program), optional=True)
            if fits:
                self._later.denoise.setdefault(shapes.seats_per_device, {})[form] = program
            return fits

        for form in self.further_forms:
            program = compile_evaluations(shapes, self._compiler, form)
            if not self._model.residency.owner.do(partial(use, form, program)):
                self._compiler.tell(f"{self.lane} has no program of {form}: there is no memory for it")

    def prepare_retry(self) -> None:
        """Compile the decoding in float32, where that makes a difference and there is memory for it."""
        if self._model.decodes_in_float32:
            return
        decode = compile_decode(self._shapes, self._compiler, in_float32=True)

        def use() -> None:
            if self._claim(self._need_with(decode_in_float32=decode), optional=True):
                self._later.decode_in_float32 = decode

        self._model.residency.owner.do(use)

    @property
    def _seated(self) -> SeatState:
        """The state of the seats; RuntimeError before a `reset`."""
        if self._state is None:
            raise RuntimeError(f"the seats of {self.lane} are not on the devices: they need a reset")
        return self._state

    def free(self) -> None:
        """Free the seats' memory on the devices, and what failed work may have encoded or moved there."""
        self._model.forget_texts()
        self._model.residency.evict_lost(self.lane.model)
        for leaf in jax.tree.leaves((self._state, self._control, self._image)):
            leaf.delete()
        self._state = self._control = self._image = None

    @property
    def _denoising(self) -> Mapping[ProgramForm, Program]:
        """The programs for the evaluations of a run with the seats that there are."""
        later = self._later.denoise.get(self.seats_per_device, {})
        return {**later, **self._programs.denoise}

    def _claim(self, need: Need, *, optional: bool = False) -> bool:
        """Claim memory in place of the earlier claim; False, and no change, without room."""
        return self._model.residency.claim(self.lane, need, optional=optional)

    def _need_with(self, *more: Program, decode_in_float32: Program | None = None) -> Need:
        """Return the lane's need with programs that it may get."""
        return self._programs.need(
            *(self._later.begin, *self._denoising.values(), *more),
            decode_in_float32=decode_in_float32 or self._later.decode_in_float32,
            decodes_in_parallel=self._beside is not None,
        )

    def _decoded(self, program: Program, latents: Mapping[int, Latents]) -> dict[int, Picture]:
        """Decode the latents (1, h, w, c) of each device, and start to copy the pictures to the host."""
        classifier, [parameters] = self._model.classifier, self._model.on_devices(DECODING)
        decoded: Mapping[int, Decoded] = self._call(
            call_on, program, list(latents), parameters, Shares(latents)
        )
        judged = Shares()
        if classifier is not None:
            inputs = Shares({device: each.classifier_input for device, each in decoded.items()})
            judged = self._call(classifier.queue, inputs)
        return {
            device: Picture(
                latents=latents[device],
                pixels=one.pixels,
                finite=one.finite,
                scores=one.scores,
                probabilities=judged.get(device),
                classifier=classifier,
            )
            for device, one in decoded.items()
        }

    def _call(self, program: Callable[..., Any], *arguments: Any) -> Any:
        """Queue a program of pictures: on a CPU in a thread of its own, beside the other programs."""
        if self._beside is None:  # an accelerator has one queue for all threads
            return program(*arguments)
        return self._beside.submit(program, *arguments).result()

    def _with_start(self, newcomers: Mapping[int, Prepared]) -> set[int]:
        """Return the seats of the newcomers with a start picture; where the network inpaints those of all."""
        always = self._model.networks.denoiser.further_channels > 0
        seats = {seat for seat, one in newcomers.items() if always or one.picture is not None}
        if seats and self._later.begin is None:
            raise DevicesFailed(f"{self.lane} cannot start from pictures: what encodes them is not ready.")
        return seats

    def _taken(self, seats: Iterable[int]) -> dict[int, jax.Array]:
        """Return the latents (1, h, w, c) in each of these seats, on its device."""
        found: dict[int, jax.Array] = {}
        for wave in self._grid.waves(seats):
            chosen = np.zeros(self._model.device_count, np.int32)
            for device, seat in wave.items():
                chosen[device] = seat % self.seats_per_device
            taken = Shares.of(self._programs.take(self._seated.sampler.x, chosen), self._model.mesh)
            found |= {seat: taken[device] for device, seat in wave.items()}
        return found
