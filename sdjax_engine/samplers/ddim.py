"""DDIM and DDPM.

Song, Meng and Ermon 2020, "Denoising Diffusion Implicit Models" (arXiv 2010.02502); Ho, Jain and Abbeel 2020,
"Denoising Diffusion Probabilistic Models" (arXiv 2006.11239).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from sdjax_engine.samplers.schedules import (
    Off,
    SchedulerConfig,
    alphas_cumprod,
    spaced_timesteps,
    x_0_weights,
)
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Table


class DDIM(SchedulerConfig):
    """`DDIMScheduler`: equation 12, for eta from 0 (deterministic) to 1 (as noisy as DDPM).

    `clip_sample` defaults to false, unlike in the reference's class: the reference's pipeline turns it off
    for latents, and clipping is not linear.
    """

    reference: ClassVar[str] = "DDIMScheduler"

    timestep_spacing: Literal["leading", "linspace", "trailing"] = "leading"
    prediction_type: Literal["epsilon", "v_prediction", "sample"] = "epsilon"
    set_alpha_to_one: bool = True
    rescale_betas_zero_snr: bool = False
    clip_sample: Off = False
    thresholding: Off = False

    def table(self, num_inference_steps: int, *, begin: int = 0, eta: float = 0.0) -> Table:
        """Return the table; `eta` scales the noise of each step."""
        alpha_bar = alphas_cumprod(self, zero_terminal_snr=self.rescale_betas_zero_snr)
        final = 1.0 if self.set_alpha_to_one else alpha_bar[0]
        stride = self.num_train_timesteps // num_inference_steps
        evaluations = []
        for t in spaced_timesteps(self, num_inference_steps, whole=True).astype(int)[begin:]:
            a_next = alpha_bar[t - stride] if t >= stride else final
            evaluations.append(self._evaluation(t, a=alpha_bar[t], a_next=a_next, eta=eta))
        return Table.of(evaluations)

    def _evaluation(self, t: int, *, a: float, a_next: float, eta: float) -> Evaluation:
        alpha, sigma = a**0.5, (1 - a) ** 0.5
        std = eta * max(0.0, (1 - a_next) / (1 - a) * (1 - a / a_next)) ** 0.5
        direction = max(0.0, 1 - a_next - std**2) ** 0.5  # weight of eps = (x - alpha·x_0)/sigma
        p, q = x_0_weights(self.prediction_type, alpha=alpha, sigma=sigma)
        x = Mix(x=direction / sigma, h=[np.sqrt(a_next) - direction * alpha / sigma], z=std)
        return Evaluation(level=Level(alpha, sigma), t=t, p=p, q=q, x=x)


LEAST_VARIANCE = 1e-20


class DDPM(SchedulerConfig):
    """`DDPMScheduler` with a fixed variance; timesteps may be further apart than one.

    `clip_sample` defaults to false, unlike in the reference's class, for the reason given in `DDIM`.
    """

    reference: ClassVar[str] = "DDPMScheduler"

    timestep_spacing: Literal["leading", "linspace", "trailing"] = "leading"
    prediction_type: Literal["epsilon", "v_prediction", "sample"] = "epsilon"
    variance_type: Literal["fixed_small", "fixed_small_log", "fixed_large"] = "fixed_small"
    rescale_betas_zero_snr: bool = False
    clip_sample: Off = False
    thresholding: Off = False

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        alpha_bar = alphas_cumprod(self, zero_terminal_snr=self.rescale_betas_zero_snr)
        timesteps = spaced_timesteps(self, num_inference_steps, whole=True).astype(int)[begin:]
        goals = [*alpha_bar[timesteps[1:]], 1.0]
        pairs = zip(timesteps, goals, strict=True)
        return Table.of([self._evaluation(t, a=alpha_bar[t], a_next=a_next) for t, a_next in pairs])

    def _evaluation(self, t: int, *, a: float, a_next: float) -> Evaluation:
        """Equation 7 of the paper, with β = 1 - a/a_next between the two timesteps."""
        beta = 1 - a / a_next
        variance = beta if self.variance_type == "fixed_large" else (1 - a_next) / (1 - a) * beta
        std = max(variance, LEAST_VARIANCE) ** 0.5 if t > 0 else 0.0
        p, q = x_0_weights(self.prediction_type, alpha=a**0.5, sigma=(1 - a) ** 0.5)
        of_x_0 = a_next**0.5 * beta / (1 - a)
        x = Mix(x=(a / a_next) ** 0.5 * (1 - a_next) / (1 - a), h=[of_x_0], z=std)
        return Evaluation(level=Level(a**0.5, (1 - a) ** 0.5), t=t, p=p, q=q, x=x)
