"""Trajectory consistency sampling: Zheng et al. 2024 (arXiv 2402.19159)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sdjax_engine.samplers.lcm import DistilledConfig
from sdjax_engine.samplers.schedules import alphas_cumprod, x_0_weights
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Table


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
