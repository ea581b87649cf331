"""Samplers of distilled networks: latent consistency, Luo et al. 2023 (arXiv 2310.04378), and trajectories.

TCD is trajectory consistency sampling: Zheng et al. 2024 (arXiv 2402.19159).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.samplers.schedules import Beta, Off, SchedulerConfig, alphas_cumprod, x_0_weights
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Table

SIGMA_DATA = 0.5


class DistilledConfig(SchedulerConfig):
    """The keys of samplers for networks that were distilled on `original_inference_steps` timesteps."""

    beta_start: Beta = 0.00085
    beta_end: Beta = 0.012
    beta_schedule: Literal["linear", "scaled_linear", "squaredcos_cap_v2"] = "scaled_linear"
    prediction_type: Literal["epsilon", "v_prediction", "sample"] = "epsilon"
    original_inference_steps: int = Field(50, ge=1)
    rescale_betas_zero_snr: bool = False
    clip_sample: Off = False
    thresholding: Off = False

    def distilled_timesteps(self, num_inference_steps: int) -> list[int]:
        """Return the distillation's timesteps, falling; raises `InvalidRequest` for too many steps."""
        original = self.original_inference_steps
        if original > self.num_train_timesteps:
            raise UnreadableCheckpoint(
                f"scheduler_config.json: original_inference_steps = {original} is more than "
                f"num_train_timesteps = {self.num_train_timesteps}"
            )
        if num_inference_steps > original:
            raise InvalidRequest("steps", value=num_inference_steps, limit=original)
        skip = self.num_train_timesteps // original
        falling = np.arange(original, 0, -1) * skip - 1
        indices = np.linspace(0, original, num_inference_steps, endpoint=False).astype(int)
        return [int(t) for t in falling[indices]]


class LCM(DistilledConfig):
    """`LCMScheduler`: each step goes to x_0; all steps but the last then add noise.

    The timesteps are the distillation's; `timestep_spacing` is ignored.
    """

    reference: ClassVar[str] = "LCMScheduler"

    timestep_scaling: float = Field(10.0, gt=0)

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        alpha_bar = alphas_cumprod(self, zero_terminal_snr=self.rescale_betas_zero_snr)
        timesteps = self.distilled_timesteps(num_inference_steps)[begin:]
        goals = [*(alpha_bar[t] for t in timesteps[1:]), 1.0]
        pairs = zip(timesteps, goals, strict=True)
        return Table.of([self._evaluation(t, a=alpha_bar[t], a_next=a_next) for t, a_next in pairs])

    def _evaluation(self, t: int, *, a: float, a_next: float) -> Evaluation:
        alpha, sigma = a**0.5, (1 - a) ** 0.5
        scaled = t * self.timestep_scaling
        c_skip = SIGMA_DATA**2 / (scaled**2 + SIGMA_DATA**2)
        c_out = scaled / (scaled**2 + SIGMA_DATA**2) ** 0.5
        p, q = x_0_weights(self.prediction_type, alpha=alpha, sigma=sigma)
        x = Mix(x=a_next**0.5 * c_skip, h=[a_next**0.5 * c_out], z=(1 - a_next) ** 0.5)
        return Evaluation(level=Level(alpha, sigma), t=t, p=p, q=q, x=x)


class TCD(DistilledConfig):
    """`TCDScheduler`: each step goes past the next timestep to a time s; all but the last then add noise.

    The timesteps are the distillation's; `timestep_spacing` is ignored. The last step ends at timestep 0,
    which has a little noise left.
    """

    reference: ClassVar[str] = "TCDScheduler"

    def table(self, num_inference_steps: int, *, begin: int = 0, eta: float = 0.3) -> Table:
        """Return the table; `eta`, the paper's γ from 0 to 1, is the share of randomness."""
        alpha_bar = alphas_cumprod(self, zero_terminal_snr=self.rescale_betas_zero_snr)
        timesteps = self.distilled_timesteps(num_inference_steps)[begin:]
        evaluations = []
        for t, t_next in zip(timesteps, [*timesteps[1:], 0], strict=True):
            s = int(
                np.float32(1 - eta) * np.float32(t_next)
            )  # float32 as in the reference, because the floor depends on the last digit
            a, a_s, a_next = alpha_bar[[t, s, t_next]]
            evaluations.append(self._evaluation(t, a=a, a_s=a_s, a_next=a_next))
        return Table.of(evaluations)

    def _evaluation(self, t: int, *, a: float, a_s: float, a_next: float) -> Evaluation:
        alpha, sigma = a**0.5, (1 - a) ** 0.5
        share = (a_next / a_s) ** 0.5
        of_eps = share * (1 - a_s) ** 0.5  # weight of eps = (x - alpha·x_0)/sigma
        p, q = x_0_weights(self.prediction_type, alpha=alpha, sigma=sigma)
        x = Mix(x=of_eps / sigma, h=[share * a_s**0.5 - of_eps * alpha / sigma], z=(1 - share**2) ** 0.5)
        return Evaluation(level=Level(alpha, sigma), t=t, p=p, q=q, x=x)
