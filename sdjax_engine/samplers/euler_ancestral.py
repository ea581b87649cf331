"""Euler with ancestral noise, as in k-diffusion: each step goes to σ_down and adds noise up to its goal."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from sdjax_engine.samplers.config import SchedulerConfig
from sdjax_engine.samplers.euler import exploding_evaluation, to_goal
from sdjax_engine.samplers.schedules import training_sigmas
from sdjax_engine.samplers.sigmas import initial_sigma, spaced_sigmas
from sdjax_engine.samplers.tables import Table


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
