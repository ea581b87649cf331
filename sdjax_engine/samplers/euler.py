"""Euler's and Heun's methods: Karras et al. 2022 (arXiv 2206.00364), without churn."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from sdjax_engine.samplers.schedules import (
    Array,
    Beta,
    Off,
    SchedulerConfig,
    SigmaConfig,
    alpha_sigma,
    exploding_ladder,
    exponential_sigmas,
    initial_sigma,
    spaced_sigmas,
    training_sigmas,
    x_0_weights,
)
from sdjax_engine.samplers.tables import REST, Evaluation, Level, Mix, Table


class Euler(SigmaConfig):
    """`EulerDiscreteScheduler`, on x = x_0 + σ·eps."""

    reference: ClassVar[str] = "EulerDiscreteScheduler"

    prediction_type: Literal["epsilon", "v_prediction", "sample"] = "epsilon"
    rescale_betas_zero_snr: bool = False
    final_sigmas_type: Literal["zero", "sigma_min"] = "zero"
    sigma_min: float | None = Field(None, gt=0)
    sigma_max: float | None = Field(None, gt=0)
    interpolation_type: Literal["linear", "log_linear"] = "linear"
    timestep_type: Literal["discrete", "continuous"] = "discrete"

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        timesteps, sigmas = self._ladder(num_inference_steps)
        if self.timestep_type == "continuous" and self.prediction_type == "v_prediction":
            timesteps = np.log(sigmas[:-1]) / 4
        evaluations = [
            exploding_evaluation(self.prediction_type, t, sigma, x=to_goal(sigma, goal))
            for t, sigma, goal in zip(timesteps, sigmas[:-1], sigmas[1:], strict=True)
        ][begin:]
        return Table.of(evaluations, init_noise_sigma=initial_sigma(self, sigmas))

    def _ladder(self, num_inference_steps: int) -> tuple[Array, Array]:
        """Return the timesteps `(n,)` and the σ at the start and end of each step `(n + 1,)`."""
        trained = training_sigmas(self, zero_terminal_snr=self.rescale_betas_zero_snr)
        top, bottom = self.sigma_max, self.sigma_min
        if self.interpolation_type == "log_linear":
            top, bottom = top or trained[-1], bottom or trained[0]
        timesteps, sigmas = exploding_ladder(
            self, trained, num_inference_steps, sigma_max=top, sigma_min=bottom
        )
        if self.interpolation_type == "log_linear" and not self.respaces:
            # n + 1 exponential σ that do not belong to the timesteps: the last goal is the smallest σ
            return timesteps, exponential_sigmas(trained[-1], trained[0], len(timesteps) + 1)
        return timesteps, np.append(sigmas, trained[0] if self.final_sigmas_type == "sigma_min" else 0.0)


def to_goal(sigma: float, goal: float, *, up: float = 0.0) -> Mix:
    """Return x' for a straight step from `sigma` to `goal`, plus noise of standard deviation `up`.

    It is written in terms of x_0, so that the device subtracts no numbers as large as the first σ.
    """
    return Mix(x=goal / sigma, h=[1 - goal / sigma], z=up)


def exploding_evaluation(
    prediction_type: str, t: float, sigma: float, *, x: Mix, r: Mix = REST, level: Level | None = None
) -> Evaluation:
    """Return the row of an evaluation at x = x_0 + `sigma`·eps that keeps x_0 as h_0."""
    alpha, sigma_vp = alpha_sigma(sigma)
    p, q = x_0_weights(prediction_type, alpha=alpha, sigma=sigma_vp)
    level = Level(1.0, sigma) if level is None else level
    return Evaluation(level=level, t=t, s=alpha, p=p * alpha, q=q, x=x, r=r)


class EulerAncestral(SchedulerConfig):
    """`EulerAncestralDiscreteScheduler`, on x = x_0 + σ·eps; the last step adds no noise."""

    reference: ClassVar[str] = "EulerAncestralDiscreteScheduler"

    prediction_type: Literal["epsilon", "v_prediction"] = "epsilon"
    rescale_betas_zero_snr: bool = False

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        trained = training_sigmas(self, zero_terminal_snr=self.rescale_betas_zero_snr)
        timesteps, sigmas = spaced_sigmas(self, trained, num_inference_steps)
        sigmas = np.append(sigmas, 0.0)
        evaluations = []
        for t, sigma, sigma_next in zip(timesteps, sigmas[:-1], sigmas[1:], strict=True):
            sigma_up = sigma_next * (1 - (sigma_next / sigma) ** 2) ** 0.5
            sigma_down = (sigma_next**2 - sigma_up**2) ** 0.5
            x = to_goal(sigma, sigma_down, up=sigma_up)
            evaluations.append(exploding_evaluation(self.prediction_type, t, sigma, x=x))
        return Table.of(evaluations[begin:], init_noise_sigma=initial_sigma(self, sigmas))


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
