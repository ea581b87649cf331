"""A sampler is a table: one row of coefficients for each evaluation of the network.

With x the latents, r one saved tensor of the same shape, h_1 … h_4 what the method kept at earlier
evaluations (h_1 the latest) and z fresh standard noise, every row means

    m        = network(s·x, t)                      with guidance already mixed into m
    h_0      = p·x + q·m                            what the method keeps: x_0, eps or the raw output
    (x', r') = M · (x, r, h_0, h_1, h_2, h_3, h_4, z)

M is two rows of eight numbers. The device computes only this update (`step.py`), so that steps, sampler
and schedule are data and never compile. Tables are computed on the host in float64 and rounded once, to
float32. p and q include the conversion of a network's `prediction_type`: for each of epsilon, v and
sample, x_0 and eps are weighted sums of x and m.

One line for each method, in the papers' names (a = ᾱ_t, b = 1 - a, σ and α of a variance-preserving
process, λ = log α/σ):

    DDIM, any eta          h_0 = x_0;  x' = dir/√b·x + (√a' - dir·√a/√b)·h_0 + std·z
    PNDM without PRK       h_0 = m;  the first step again, averaged: x' of r (the first x), h_0 and h_1;
                           then Adams–Bashforth over h_0 … h_3. The second evaluation is not part of
                           the multistep; the fifth evaluation uses h_4, so four tensors are kept
    Euler                  h_0 = x_0;  x' = σ'/σ·x + (1 - σ'/σ)·h_0
    Euler ancestral        as Euler to σ_down, + σ_up·z
    Heun                   h_0 = x_0;  two rows a step: as Euler with r' = x, then
                           x' = r + dt/2·((x - h_0)/σ' + (r - h_1)/σ)
    DPM++ 1, 2, 3 M        h_0 = x_0;  x' of x, h_0, h_1, h_2;  SDE: other weights, + weight·z
    DPM++ SDE (two rows)   the midpoint's z1 is part of the whole step's noise: r' = A·x + B·z1
                           carries it, then x' = r + C·h_0 + D·z
    UniPC up to order 3    r is the last corrected x. The corrector is r' of r, h_0, h_1, h_2, h_3; the
                           predictor starts from it, so x' is its row multiplied out over the same terms
    LCM                    h_0 = x_0;  x' = √a'·(c_out·h_0 + c_skip·x) + √b'·z
    TCD                    h_0 = x_0;  x_s = √a_s·h_0 + √b_s·(x - √a·h_0)/√b;
                           x' = √(a'/a_s)·x_s + √(1 - a'/a_s)·z
    DDPM, fixed variance   h_0 = x_0;  x' = c_0·h_0 + c_t·x + std·z
    flow matching, Euler   h_0 = m;  x' = x + (σ' - σ)·h_0, with s = 1 and t = 1000·σ

Two more columns are for inpainting: after the evaluation a kept pixel is `KEEP_LATENTS` times the
picture's latents plus `KEEP_NOISE` times the first noise, as in the reference's inpainting. This is
blended into x only, never into r or the history.

The last columns are the guidance scale of the evaluation, and the strength of a control picture. At a scale
of 1 or less m is the output for the prompt alone.

Clipping or dynamic thresholding of x_0 and learned variances are not linear: a checkpoint that asks for
them is refused with an error that names the key. PNDM's Runge–Kutta start (`skip_prk_steps` false) is
refused too: it is linear, but it needs outputs of twelve evaluations ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.request import MAX_STEPS

HISTORY = 4
"""The number of earlier h that the device keeps: h_1 … h_4."""

MAX_ROWS = 2 * MAX_STEPS
"""The most rows of a table: no method evaluates more than twice per step."""


class Column(IntEnum):
    """The columns of a row; `X` and `R` are each the first of eight columns, in the order of `Term`.

    `KEEP_LATENTS` and `KEEP_NOISE` are the weights of the picture's latents and of the first noise in a kept
    pixel, after the evaluation. `GUIDANCE` is the guidance scale, 1 without guidance. `CONTROL` is the
    strength of a control picture, 0 without one.
    """

    TIMESTEP = 0
    INPUT_SCALE = 1
    P = 2
    Q = 3
    X = 4
    R = 12
    KEEP_LATENTS = 20
    KEEP_NOISE = 21
    GUIDANCE = 22
    CONTROL = 23


class Term(IntEnum):
    """The tensors that a row of M weighs, as offsets from `Column.X` and `Column.R`."""

    X = 0
    R = 1
    H0 = 2
    H1 = 3
    H2 = 4
    H3 = 5
    H4 = 6
    Z = 7


ROW = Column.CONTROL + 1
"""The number of columns of a row."""


@dataclass(frozen=True, kw_only=True)
class Mix:
    """One row of M; `h` are the weights of h_0, h_1, …; missing weights are zero."""

    x: float = 0.0
    r: float = 0.0
    h: Sequence[float] = ()
    z: float = 0.0

    def weights(self) -> list[float]:
        """Return the eight numbers in the order of `Term`."""
        missing = 1 + HISTORY - len(self.h)
        return [self.x, self.r, *self.h, *[0.0] * missing, self.z]


REST = Mix(r=1.0)
UNGUIDED, UNCONTROLLED = 1.0, 0.0


class Level(NamedTuple):
    """The noise level of an x: its weights of the picture's latents and of standard noise."""

    latents: float
    noise: float


CLEAN = Level(latents=1.0, noise=0.0)
"""The level of a finished picture."""


class Prediction(Enum):
    """The meaning of h_0, which a method keeps of the network's output."""

    X_0 = "the estimate of the finished picture"
    EPS = "the estimate of the noise"
    V = "the velocity of v-prediction"
    FLOW = "the velocity of a flow: noise less picture"

    def estimate(self, before: Level, after: Level) -> tuple[float, float]:
        """Return the weights of x' and h_0 in the estimate of x_0; h_0 has the level `before`, x' `after`."""
        latents, noise = after
        if self is Prediction.EPS:
            return 1 / latents, -noise / latents
        if self is Prediction.V:
            part = before.latents * latents + before.noise * noise
            return before.latents / part, -noise / part
        return (1.0, -noise) if self is Prediction.FLOW else (0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One row of a table: the network's input, the kept output, and the two rows of M.

    `level` is the noise level of x before the evaluation, as the reference's `add_noise` makes it.
    `prediction` says what h_0 is. `t` is the network's timestep, `s` the factor on its input. By default `r`
    leaves the saved tensor unchanged.
    """

    level: Level
    t: float
    s: float = 1.0
    p: float
    q: float
    x: Mix
    r: Mix = REST
    prediction: Prediction = Prediction.X_0

    def row(self, after: Level) -> list[float]:
        """Return the numbers in the order of `Column`; `after` is the noise level after the evaluation."""
        return [
            self.t,
            self.s,
            self.p,
            self.q,
            *self.x.weights(),
            *self.r.weights(),
            *after,
            UNGUIDED,
            UNCONTROLLED,
        ]


IDLE = Evaluation(level=CLEAN, t=0.0, p=0.0, q=0.0, x=Mix(x=1.0))
"""The padding row: it leaves x and r exactly unchanged and ignores the network's output."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A request's sampler, steps and schedule as the device needs them.

    `rows` is float32 `(evaluations, ROW)` and read-only. The first x is standard noise times
    `init_noise_sigma` plus the latents of the start picture, if any, times `init_latent_scale`. Progress is
    counted in evaluations: PNDM has one more evaluation than steps. `estimates`, float32 `(evaluations, 2)`,
    are the weights of x' and h_0 in the estimate of x_0 after each evaluation.
    """

    rows: npt.NDArray[np.float32] = field(repr=False)
    estimates: npt.NDArray[np.float32] = field(repr=False)
    init_noise_sigma: float
    init_latent_scale: float = 0.0
    first_level: Level = CLEAN

    @classmethod
    def of(cls, evaluations: Sequence[Evaluation], *, init_noise_sigma: float = 1.0) -> Table:
        """Round `evaluations` to rows; raises `UnreadableCheckpoint` for rows that are not finite."""
        levels_after = [*(evaluation.level for evaluation in evaluations[1:]), CLEAN]
        pairs = list(zip(evaluations, levels_after, strict=True))
        rows = np.array([evaluation.row(level) for evaluation, level in pairs]).astype(np.float32)
        if not np.isfinite(rows).all():
            first = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise UnreadableCheckpoint(
                f"the scheduler config gives no finite coefficients at timestep {evaluations[first].t:g}"
            )
        rows.setflags(write=False)
        weights = [evaluation.prediction.estimate(evaluation.level, after) for evaluation, after in pairs]
        return cls(
            rows=rows,
            estimates=np.array(weights).astype(np.float32),
            init_noise_sigma=init_noise_sigma,
            first_level=evaluations[0].level,
        )

    def on_picture(self) -> Table:
        """Return this table for a start picture: the first x is its latents with noise of the first level."""
        latents, noise = self.first_level
        return replace(self, init_latent_scale=float(latents), init_noise_sigma=float(noise))

    def guided(self, scale: float, interval: tuple[float, float] = (0.0, 1.0)) -> Table:
        """Return this table with a guidance scale, in an interval of its evaluations.

        Of n evaluations, counted from 0, those from int(start·n) up to, not including, int(stop·n) have it,
        as in the guiders of the reference (`ClassifierFreeGuidance`). The others have no guidance.
        """
        first, end = (int(share * self.evaluations) for share in interval)
        rows = self.rows.copy()
        rows[first:end, Column.GUIDANCE] = scale
        rows.setflags(write=False)
        return replace(self, rows=rows)

    def controlled(self, strength: float, interval: tuple[float, float] = (0.0, 1.0)) -> Table:
        """Return this table with the strength of a control picture, in an interval of its evaluations.

        Of n evaluations, counted from 0, evaluation i has it if i/n is not below start and (i + 1)/n not
        above stop, as in the reference's pipelines.
        """
        (start, stop), index = interval, np.arange(self.evaluations)
        inside = (index / self.evaluations >= start) & ((index + 1) / self.evaluations <= stop)
        rows = self.rows.copy()
        rows[inside, Column.CONTROL] = strength
        rows.setflags(write=False)
        return replace(self, rows=rows)

    @property
    def evaluations(self) -> int:
        """The number of evaluations of the network."""
        return len(self.rows)

    def padded(self, max_rows: int) -> npt.NDArray[np.float32]:
        """Return rows `(max_rows, ROW)`: the table's own, then idle rows.

        Tables of different lengths can thus share one `(seats, max_rows, ROW)` array, in which a finished
        seat is idle while others go on. Raises `ValueError` if the table is longer.
        """
        if self.evaluations > max_rows:
            raise ValueError(f"a table of {self.evaluations} rows does not fit in {max_rows}")
        rows = np.tile(np.array(IDLE.row(CLEAN), np.float32), (max_rows, 1))
        rows[: self.evaluations] = self.rows
        return rows
