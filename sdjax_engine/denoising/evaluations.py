"""The functions that JAX traces for the evaluations of a run: of every row of a device, or of some of them.

A row is one text of one seat, and costs one evaluation of the network. `denoising/traced.py` says what holds
for every traced function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sdjax_engine.denoising.noise import fresh_noise
from sdjax_engine.denoising.state import SamplerState, SeatInputs
from sdjax_engine.families.family import Conditioning, Controlled, Networks, Parameters, WithLoras
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.samplers import step
from sdjax_engine.samplers.tables import Column

ASCENDING: Any = {"mode": "promise_in_bounds", "unique_indices": True, "indices_are_sorted": True}
"""How arrays are read and written at ascending seats."""


class OfEvaluations(NamedTuple):
    """The parameters of the denoiser with its LoRA rows, and those of a ControlNet, {} without one."""

    denoiser: WithLoras
    control: Parameters


ToRows = Callable[[jax.Array], jax.Array]
"""Values of seats, (seats, …) → those of the rows, (rows, …)."""

ToSeats = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
"""Values of rows → those of each seat's first text and of its last; any value for a text without a row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluatedRows:
    """The rows of an evaluation: their conditioning, by row, and which row belongs to which seat.

    `halves` is how many texts a seat has. The `loras` are by row, or by seat if each seat has the same number
    of consecutive rows. `control` is the conditioning of a ControlNet, `image` that of image prompts; None
    without them.
    """

    halves: int
    conditioning: Conditioning
    loras: LoraRows
    to_rows: ToRows
    to_seats: ToSeats
    control: Conditioning | None = None
    image: Conditioning | None = None


def denoise(  # noqa: PLR0917 – the two halves of the state, and the run
    networks: Networks,
    parameters: OfEvaluations,
    sampler: SamplerState,
    inputs: SeatInputs,
    start: jax.Array,
    stop: jax.Array,
    *,
    counted_by_host: bool = False,
) -> tuple[SamplerState, jax.Array]:
    """Make each seat's evaluations from `start` up to, not including, `stop` (seats,) int32.

    A seat whose `start` is not below `stop` stays as it is; a device with no other seat computes nothing.
    With `counted_by_host` a call makes one evaluation on every device: the host calls again for the next.
    Returns the state and the number of evaluations made, (1,), which the host waits for.
    """
    rows = every_row(inputs)
    return repeat(networks, parameters, sampler, inputs, rows, start, stop, counted_by_host=counted_by_host)


def denoise_some(  # noqa: PLR0917 – the arguments of `denoise`, and which seats and rows
    networks: Networks,
    parameters: OfEvaluations,
    sampler: SamplerState,
    inputs: SeatInputs,
    seats: jax.Array,
    rows: jax.Array,
    start: jax.Array,
    stop: jax.Array,
    *,
    counted_by_host: bool = False,
) -> tuple[SamplerState, jax.Array]:
    """Make the evaluations of the `seats` (some,) int32, ascending, from `start` to `stop` (some,) int32.

    The network computes only the `rows` (rows,) int32: row seat · halves + half is one text of a seat. If a
    seat's evaluations are guided, `rows` has both its rows, else its last one; a row may be repeated. The
    other seats stay as they are. Returns the same as `denoise`.
    """
    sampler_of_some, noise, start_picture, seed, tables = jax.tree.map(
        lambda of_all: of_all.at[seats].get(**ASCENDING),
        (sampler, inputs.noise, inputs.start, inputs.seed, inputs.rows),
    )
    inputs_of_some = inputs._replace(noise=noise, start=start_picture, seed=seed, rows=tables)
    chosen = some_rows(inputs, seats, rows)
    changed, done = repeat(
        *(networks, parameters, sampler_of_some, inputs_of_some, chosen, start, stop),
        counted_by_host=counted_by_host,
    )
    written: SamplerState = jax.tree.map(
        lambda of_all, some: of_all.at[seats].set(some, **ASCENDING), sampler, changed
    )
    return written, done


def every_row(inputs: SeatInputs) -> EvaluatedRows:
    """Return every text of every seat as a row; the rows of a seat are consecutive."""
    seats, halves = texts_of(inputs.conditioning)

    def to_rows(of_seats: jax.Array) -> jax.Array:
        return jnp.repeat(of_seats, halves, axis=0)

    def to_seats(of_rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        of_seats = of_rows.reshape(seats, halves, *of_rows.shape[1:])
        return of_seats[:, 0], of_seats[:, -1]

    def by_row(conditioning: Conditioning) -> Conditioning:
        of_texts, of_picture = texts_as_rows(conditioning)
        return Conditioning(of_texts=of_texts, of_picture=jax.tree.map(to_rows, of_picture))

    return EvaluatedRows(
        halves=halves,
        conditioning=by_row(inputs.conditioning),
        loras=inputs.loras,
        to_rows=to_rows,
        to_seats=to_seats,
        control=None if inputs.control is None else by_row(inputs.control),
        image=None if inputs.image is None else by_row(inputs.image),
    )


def some_rows(inputs: SeatInputs, seats: jax.Array, rows: jax.Array) -> EvaluatedRows:
    """Return the `rows` of these `seats`; the `inputs` are those of all seats."""
    _, halves = texts_of(inputs.conditioning)
    place = jnp.argmax(seats[None, :] == rows[:, None] // halves, axis=1)  # in `seats`, of each row's seat
    # The place in `rows` of each seat's first and last text; any place for a text that has no row.
    first, last = (
        jnp.argmax(rows[None, :] == (seats * halves + half)[:, None], axis=1) for half in (0, halves - 1)
    )

    def picked(array: jax.Array, places: jax.Array) -> jax.Array:
        return array.at[places].get(mode="promise_in_bounds")

    of_seat = rows // halves

    def by_row(conditioning: Conditioning) -> Conditioning:
        of_texts, of_picture = texts_as_rows(conditioning)
        return Conditioning(
            of_texts=jax.tree.map(lambda array: picked(array, rows), of_texts),
            of_picture=jax.tree.map(lambda array: picked(array, of_seat), of_picture),
        )

    return EvaluatedRows(
        halves=halves,
        conditioning=by_row(inputs.conditioning),
        loras=jax.tree.map(lambda array: picked(array, of_seat), inputs.loras),
        control=None if inputs.control is None else by_row(inputs.control),
        image=None if inputs.image is None else by_row(inputs.image),
        to_rows=lambda of_seats: picked(of_seats, place),
        to_seats=lambda of_rows: (picked(of_rows, first), picked(of_rows, last)),
    )


def texts_of(conditioning: Conditioning) -> tuple[int, int]:
    """Return how many seats there are, and how many texts each has."""
    leaves: list[jax.Array] = jax.tree.leaves(conditioning.of_texts)
    seats, texts, *_ = leaves[0].shape
    return seats, texts


def texts_as_rows(conditioning: Conditioning) -> Conditioning:
    """Return the arrays of the texts with one axis for seats and texts; the others stay as they are."""

    def flat(array: jax.Array) -> jax.Array:
        return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])

    return conditioning._replace(of_texts=jax.tree.map(flat, conditioning.of_texts))


def repeat(  # noqa: PLR0917 – the arguments of `denoise`, and the rows
    networks: Networks,
    parameters: OfEvaluations,
    sampler: SamplerState,
    inputs: SeatInputs,
    rows: EvaluatedRows,
    start: jax.Array,
    stop: jax.Array,
    *,
    counted_by_host: bool,
) -> tuple[SamplerState, jax.Array]:
    """Make the evaluations, as `denoise` describes, of the seats of `sampler`.

    `inputs` belong to the same seats. Conditioning and LoRAs are those of the `rows`, not of the `inputs`.
    """

    def one_more(sampler: SamplerState, evaluation: jax.Array) -> SamplerState:
        active = evaluation < stop
        return evaluate(networks, parameters, sampler, inputs, rows, evaluation, active=active)

    if counted_by_host:
        return one_more(sampler, start), jnp.ones((1,), jnp.int32)
    length = jnp.max(stop - start)
    done, sampler = jax.lax.while_loop(
        lambda carry: carry[0] < length,
        lambda carry: (carry[0] + 1, one_more(carry[1], start + carry[0])),
        (jnp.zeros((), jnp.int32), sampler),
    )
    return sampler, done[None]


def evaluate(  # noqa: PLR0917 – the state, the rows, and where each seat is
    networks: Networks,
    parameters: OfEvaluations,
    sampler: SamplerState,
    inputs: SeatInputs,
    rows: EvaluatedRows,
    evaluation: jax.Array,
    *,
    active: jax.Array,
) -> SamplerState:
    """Call the network once for the rows, each seat at its own `evaluation`; advance the seats `active`."""
    row = jax.vmap(lambda rows, index: jax.lax.dynamic_index_in_dim(rows, index, keepdims=False))(
        inputs.rows, evaluation
    )
    m = predict(networks, parameters, sampler.x, inputs, rows, row)
    z = jax.vmap(lambda seed, index: fresh_noise(seed, index, sampler.x.shape[1:]))(inputs.seed, evaluation)
    x, r, history = step.advance(*sampler, m, z, row)
    x = jnp.where(inputs.start.mask > 0, x, kept_part(inputs, row))
    return SamplerState(
        *(
            jnp.where(active.reshape(-1, *[1] * (old.ndim - 1)), new, old)
            for new, old in zip((x, r, history), sampler, strict=True)
        )
    )


def predict(  # noqa: PLR0917 – the arguments of `evaluate`, and the table's rows
    networks: Networks,
    parameters: OfEvaluations,
    x: jax.Array,
    inputs: SeatInputs,
    rows: EvaluatedRows,
    row: jax.Array,
) -> jax.Array:
    """Return the network's output for every seat, (seats, h, w, c) float32, with guidance applied.

    `row` is the table's row of each seat.
    """
    sample = jnp.concatenate([step.network_input(x, row), inputs.start.channels], axis=-1)
    conditioning = rows.conditioning
    if networks.image_prompts is not None and rows.image is not None:
        conditioning = networks.image_prompts.joined(conditioning, rows.image)
    of_rows = rows.to_rows(sample), rows.to_rows(row), conditioning, rows.loras
    if networks.control is None or rows.control is None:
        m = networks.denoiser.predict(parameters.denoiser, *of_rows)
    else:
        control = Controlled(parameters.control, rows.control)
        m = networks.control.predict(parameters.denoiser, *of_rows, control=control)
    negative, positive = rows.to_seats(m)
    if rows.halves == 1:
        return positive
    scale = row[:, Column.GUIDANCE, None, None, None]
    return jnp.where(scale > 1, negative + scale * (positive - negative), positive)


def kept_part(inputs: SeatInputs, row: jax.Array) -> jax.Array:
    """Return the kept pixels after an evaluation: the start picture with as much noise as x has."""
    of_latents, of_noise = (
        row[:, column, None, None, None] for column in (Column.KEEP_LATENTS, Column.KEEP_NOISE)
    )
    return of_latents * inputs.start.latents + of_noise * inputs.noise
