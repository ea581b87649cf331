"""PNDM without its Runge–Kutta start, also called PLMS: Liu et al. 2022 (arXiv 2202.09778).

Stable Diffusion uses this form: the first step is taken twice and averaged, then Adams–Bashforth of rising
order follows.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from sdjax_engine.samplers.schedules import SchedulerConfig, alphas_cumprod, spaced_timesteps
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Prediction, Table

FIRST_WEIGHTS = (
    (1.0,),
    (1 / 2, 1 / 2),
    (3 / 2, 0.0, -1 / 2),
    (23 / 12, -16 / 12, 0.0, 5 / 12),
    (55 / 24, -59 / 24, 37 / 24, 0.0, -9 / 24),
)
"""Weights of h_0, h_1, … at the first evaluations. The second evaluation only averages the first step, so
that later evaluations give its output no weight."""

LATER_WEIGHTS = (55 / 24, -59 / 24, 37 / 24, -9 / 24)


class PNDM(SchedulerConfig):
    """`PNDMScheduler` with `skip_prk_steps`; n steps take n + 1 evaluations (a single step takes one).

    `skip_prk_steps` defaults to true, unlike in the reference's class: every Stable Diffusion
    config sets it, and the Runge–Kutta start does not fit a table.
    """

    reference: ClassVar[str] = "PNDMScheduler"

    timestep_spacing: Literal["leading", "linspace", "trailing"] = "leading"
    prediction_type: Literal["epsilon", "v_prediction"] = "epsilon"
    set_alpha_to_one: bool = False
    skip_prk_steps: Literal[True] = True

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table.

        The reference cuts the first `begin` entries of its list of timesteps, in which the second timestep
        occurs twice. So with `begin` = 1 the second step starts twice, and a larger `begin` leaves out one
        timestep fewer than `begin`.
        """
        alpha_bar = alphas_cumprod(self)
        final = 1.0 if self.set_alpha_to_one else alpha_bar[0]
        stride = self.num_train_timesteps // num_inference_steps
        timesteps = spaced_timesteps(self, num_inference_steps, whole=True).astype(int)
        evaluated = np.concatenate([timesteps[:2], timesteps[1:2], timesteps[2:]])
        evaluations = []
        for index, t in enumerate(evaluated[begin:]):
            start = t + stride if index == 1 else t  # the second evaluation repeats the first step
            a_next = alpha_bar[start - stride] if start >= stride else final
            level = Level(alpha_bar[t] ** 0.5, (1 - alpha_bar[t]) ** 0.5)
            evaluations.append(self._evaluation(index, t, level, a=alpha_bar[start], a_next=a_next))
        return Table.of(evaluations)

    def _evaluation(self, index: int, t: int, level: Level, *, a: float, a_next: float) -> Evaluation:
        """Formula 9 of the paper. The history keeps raw outputs; v is converted to eps after mixing."""
        scale = (a_next / a) ** 0.5
        of_eps = -(a_next - a) / (a * (1 - a_next) ** 0.5 + (a * (1 - a) * a_next) ** 0.5)
        if self.prediction_type == "v_prediction":
            scale, of_output = scale + of_eps * (1 - a) ** 0.5, of_eps * a**0.5
        else:
            of_output = of_eps
        prediction = Prediction.V if self.prediction_type == "v_prediction" else Prediction.EPS
        weights = FIRST_WEIGHTS[index] if index < len(FIRST_WEIGHTS) else LATER_WEIGHTS
        h = [of_output * weight for weight in weights]
        x = Mix(r=scale, h=h) if index == 1 else Mix(x=scale, h=h)
        r = Mix(x=1.0) if index == 0 else Mix(r=1.0)
        return Evaluation(level=level, t=t, p=0.0, q=1.0, x=x, r=r, prediction=prediction)
