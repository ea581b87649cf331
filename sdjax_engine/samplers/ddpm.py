"""DDPM: Ho, Jain and Abbeel 2020, "Denoising Diffusion Probabilistic Models" (arXiv 2006.11239)."""

from __future__ import annotations

from typing import ClassVar, Literal

from sdjax_engine.samplers.config import Off, SchedulerConfig
from sdjax_engine.samplers.schedules import alphas_cumprod, spaced_timesteps, x_0_weights
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Table

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
