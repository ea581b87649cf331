"""Heun's method on the probability-flow ODE: algorithm 1 of Karras et al. 2022 (arXiv 2206.00364)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from sdjax_engine.samplers.config import Beta, Off
from sdjax_engine.samplers.euler import exploding_evaluation, to_goal
from sdjax_engine.samplers.schedules import training_sigmas
from sdjax_engine.samplers.sigmas import SigmaConfig, exploding_ladder, initial_sigma
from sdjax_engine.samplers.tables import REST, Evaluation, Mix, Table


class Heun(SigmaConfig):
    """`HeunDiscreteScheduler`, on x = x_0 + σ·eps; n steps take 2n - 1 evaluations, the last is Euler's.

    A kept pixel has the noise level of each evaluation's σ, also within a step. The second evaluation steps
    from the saved first x, into which nothing is blended.
    """

    reference: ClassVar[str] = "HeunDiscreteScheduler"

    beta_start: Beta = 0.00085
    beta_end: Beta = 0.012
    prediction_type: Literal["epsilon", "v_prediction", "sample"] = "epsilon"
    clip_sample: Off = False

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        timesteps, sigmas = exploding_ladder(self, training_sigmas(self), num_inference_steps)
        goals = np.append(sigmas[1:], 0.0)
        evaluations: list[Evaluation] = []
        for index in range(begin, len(sigmas)):
            sigma, goal = sigmas[index], goals[index]
            evaluations.append(self._evaluation(timesteps[index], sigma, to_goal(sigma, goal), save=True))
            if goal > 0:
                evaluations.append(self._evaluation(timesteps[index + 1], goal, second_try(sigma, goal)))
        return Table.of(evaluations, init_noise_sigma=initial_sigma(self, sigmas))

    def _evaluation(self, t: float, sigma: float, x: Mix, *, save: bool = False) -> Evaluation:
        """Return a row; with `save`, r becomes the x before this evaluation, for the next row."""
        return exploding_evaluation(self.prediction_type, t, sigma, x=x, r=Mix(x=1.0) if save else REST)


def second_try(sigma: float, goal: float) -> Mix:
    """Return x' from the saved x by the mean of the slopes (x - x_0)/σ at the two ends of the step."""
    half = (goal - sigma) / 2
    return Mix(x=half / goal, r=1 + half / sigma, h=[-half / goal, -half / sigma])
