"""Euler's method on the probability-flow ODE: Karras et al. 2022 (arXiv 2206.00364), without churn."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from sdjax_engine.samplers.config import Off, SchedulerConfig
from sdjax_engine.samplers.schedules import (
    Array,
    alpha_sigma,
    karras_sigmas,
    sigma_to_timestep,
    spaced_timesteps,
    training_sigmas,
    x_0_weights,
)
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Table


class Euler(SchedulerConfig):
    """`EulerDiscreteScheduler`, on x = x_0 + σ·eps."""

    reference: ClassVar[str] = "EulerDiscreteScheduler"

    prediction_type: Literal["epsilon", "v_prediction", "sample"] = "epsilon"
    rescale_betas_zero_snr: bool = False
    final_sigmas_type: Literal["zero", "sigma_min"] = "zero"
    use_karras_sigmas: bool = False
    sigma_min: float | None = Field(None, gt=0)
    sigma_max: float | None = Field(None, gt=0)
    use_exponential_sigmas: Off = False
    use_beta_sigmas: Off = False
    interpolation_type: Literal["linear"] = "linear"
    timestep_type: Literal["discrete"] = "discrete"

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        timesteps, sigmas = self._ladder(num_inference_steps)
        evaluations = [
            euler_step(self.prediction_type, t, sigma=sigma, goal=goal)
            for t, sigma, goal in zip(timesteps, sigmas[:-1], sigmas[1:], strict=True)
        ][begin:]
        return Table.of(evaluations, init_noise_sigma=initial_sigma(self, sigmas))

    def _ladder(self, num_inference_steps: int) -> tuple[Array, Array]:
        """Return the timesteps `(n,)` and the σ before, between and after them `(n + 1,)`."""
        trained = training_sigmas(self, zero_terminal_snr=self.rescale_betas_zero_snr)
        timesteps, sigmas = spaced_sigmas(self, trained, num_inference_steps)
        if self.use_karras_sigmas:
            top = sigmas[0] if self.sigma_max is None else self.sigma_max
            bottom = sigmas[-1] if self.sigma_min is None else self.sigma_min
            sigmas = karras_sigmas(top, bottom, len(sigmas))
            timesteps = sigma_to_timestep(sigmas, trained)
        return timesteps, np.append(sigmas, trained[0] if self.final_sigmas_type == "sigma_min" else 0.0)


def euler_step(prediction_type: str, t: float, *, sigma: float, goal: float, up: float = 0.0) -> Evaluation:
    """Return the row from `sigma` straight to `goal`, with noise of the deviation `up` on top.

    Written by x_0, so that no two numbers as large as a first σ are subtracted on the device.
    """
    alpha, sigma_vp = alpha_sigma(sigma)
    p, q = x_0_weights(prediction_type, alpha=alpha, sigma=sigma_vp)
    x = Mix(x=goal / sigma, h=[1 - goal / sigma], z=up)
    return Evaluation(level=Level(1.0, sigma), t=t, s=alpha, p=p * alpha, q=q, x=x)


def spaced_sigmas(config: SchedulerConfig, trained: Array, num_inference_steps: int) -> tuple[Array, Array]:
    """Return timesteps, fractions included, and the σ of `trained` at them, each `(n,)`."""
    timesteps = spaced_timesteps(config, num_inference_steps, whole=False)
    return timesteps, np.interp(timesteps, np.arange(len(trained)), trained)


def initial_sigma(config: SchedulerConfig, sigmas: Array) -> float:
    """Return the deviation of the first x; "leading" starts late enough to count the picture's own in."""
    largest = float(sigmas.max())
    return float((largest**2 + 1) ** 0.5) if config.timestep_spacing == "leading" else largest
