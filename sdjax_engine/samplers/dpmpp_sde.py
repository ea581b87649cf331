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
    """`DPMSolverSDEScheduler`, on x = x_0 + σ·eps; n steps are 2n - 1 evaluations, the last being Euler's.

    The noise is a Brownian motion over σ: the whole step's has the midpoint's in it.
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
        """To the midpoint; what the whole step takes from x and from this noise is saved."""
        down, up = ancestral(sigma, goal)
        share = ((sigma - middle) / (sigma - goal)) ** 0.5
        down_to_middle, up_to_middle = ancestral(sigma, middle)
        x = to_goal(sigma, down_to_middle, up=up_to_middle)
        r = Mix(x=down / sigma, z=up * share)
        return exploding_evaluation(self.prediction_type, t, sigma, x=x, r=r)

    def _second(self, t: float, sigma: float, middle: float, goal: float) -> Evaluation:
        """The whole step with the picture that the midpoint shows; kept pixels are at its end by now."""
        down, up = ancestral(sigma, goal)
        share = ((middle - goal) / (sigma - goal)) ** 0.5
        x = Mix(r=1.0, h=[1 - down / sigma], z=up * share)
        return exploding_evaluation(self.prediction_type, t, middle, x=x, level=Level(1.0, goal))


def ancestral(sigma: float, goal: float) -> tuple[float, float]:
    """Return how far to go down from `sigma` and how much noise to add on top, to arrive at `goal`."""
    up = goal * (1 - (goal / sigma) ** 2) ** 0.5
    return goal**2 / sigma, up
