"""DPM-Solver++ SDE, two evaluations a step, as k-diffusion has it: `DPMSolverSDEScheduler`."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from sdjax_engine.samplers.config import Beta
from sdjax_engine.samplers.euler import exploding_evaluation, to_goal
from sdjax_engine.samplers.schedules import sigma_to_timestep, training_sigmas
from sdjax_engine.samplers.sigmas import SigmaConfig, exploding_ladder, initial_sigma
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Table


class DPMppSDE(SigmaConfig):
    """`DPMSolverSDEScheduler`, on x = x_0 + σ·eps; n steps take 2n - 1 evaluations, the last is Euler's.

    The noise is a Brownian motion over σ: the noise of the whole step contains the noise of its first half.
    """

    reference: ClassVar[str] = "DPMSolverSDEScheduler"

    beta_start: Beta = 0.00085
    beta_end: Beta = 0.012
    prediction_type: Literal["epsilon", "v_prediction"] = "epsilon"

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        trained = training_sigmas(self)
        timesteps, sigmas = exploding_ladder(self, trained, num_inference_steps)
        midpoints = np.sqrt(sigmas[:-1] * sigmas[1:])
        asked = sigma_to_timestep(midpoints, trained)
        evaluations: list[Evaluation] = []
        for index in range(begin, len(sigmas) - 1):
            sigma, middle, goal = sigmas[index], midpoints[index], sigmas[index + 1]
            evaluations.append(self._first(timesteps[index], sigma, middle, goal))
            evaluations.append(self._second(asked[index], sigma, middle, goal))
        x = to_goal(sigmas[-1], 0.0)
        evaluations.append(exploding_evaluation(self.prediction_type, timesteps[-1], sigmas[-1], x=x))
        return Table.of(evaluations, init_noise_sigma=initial_sigma(self, sigmas))

    def _first(self, t: float, sigma: float, middle: float, goal: float) -> Evaluation:
        """Go to the midpoint, and save in r the whole step's terms of x and of this noise."""
        down, up = ancestral(sigma, goal)
        share = ((sigma - middle) / (sigma - goal)) ** 0.5
        down_to_middle, up_to_middle = ancestral(sigma, middle)
        x = to_goal(sigma, down_to_middle, up=up_to_middle)
        r = Mix(x=down / sigma, z=up * share)
        return exploding_evaluation(self.prediction_type, t, sigma, x=x, r=r)

    def _second(self, t: float, sigma: float, middle: float, goal: float) -> Evaluation:
        """Go the whole step with the midpoint's x_0; kept pixels get the noise level of the step's end."""
        down, up = ancestral(sigma, goal)
        share = ((middle - goal) / (sigma - goal)) ** 0.5
        x = Mix(r=1.0, h=[1 - down / sigma], z=up * share)
        return exploding_evaluation(self.prediction_type, t, middle, x=x, level=Level(1.0, goal))


def ancestral(sigma: float, goal: float) -> tuple[float, float]:
    """Return (σ_down, σ_up) of an ancestral step from `sigma` to `goal`: σ_down² + σ_up² = goal²."""
    up = goal * (1 - (goal / sigma) ** 2) ** 0.5
    return goal**2 / sigma, up
