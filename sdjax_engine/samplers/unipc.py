"""UniPC: Zhao et al. 2023, "UniPC" (arXiv 2302.04867), a predictor and a corrector of orders 1 to 3."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from sdjax_engine.samplers.schedules import (
    Array,
    Off,
    SigmaConfig,
    alpha_sigma,
    eps_weights,
    multistep_timesteps,
    sigma_to_timestep,
    training_sigmas,
    x_0_weights,
)
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Prediction, Table

# The reference replaces solver types of other schedulers by its own nearest type.
Solver = Annotated[
    Literal["bh1", "bh2"],
    BeforeValidator(lambda name: "bh2" if name in ("midpoint", "heun", "logrho") else name),
]


class UniPC(SigmaConfig):
    """`UniPCMultistepScheduler`, on a variance-preserving x.

    The saved tensor is the last corrected x. Values that are blended into x for kept pixels reach the
    corrector only through the network, as in the reference.
    """

    reference: ClassVar[str] = "UniPCMultistepScheduler"

    prediction_type: Literal["epsilon", "v_prediction", "sample"] = "epsilon"
    rescale_betas_zero_snr: bool = False
    solver_order: Literal[1, 2, 3] = 2
    solver_type: Solver = "bh2"
    predict_x0: bool = True
    lower_order_final: bool = True
    disable_corrector: tuple[int, ...] = ()
    final_sigmas_type: Literal["zero", "sigma_min"] = "zero"
    sigma_min: float | None = Field(None, gt=0)
    sigma_max: float | None = Field(None, gt=0)
    use_flow_sigmas: Off = False
    use_dynamic_shifting: Off = False
    thresholding: Off = False
    solver_p: None = None
    shift_terminal: None = None

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        timesteps, sigmas = self._ladder(num_inference_steps)
        orders = [self._order(index, begin, len(timesteps)) for index in range(len(timesteps))]
        evaluations = []
        for index in range(begin, len(timesteps)):
            alpha, sigma = alpha_sigma(sigmas[index])
            weights = x_0_weights if self.predict_x0 else eps_weights
            p, q = weights(self.prediction_type, alpha=alpha, sigma=sigma)
            corrected = X
            if index > begin and index - 1 not in self.disable_corrector:
                corrected = self._corrected(orders[index - 1], sigmas[: index + 1])
            x, r = self._predicted(corrected, orders[index], sigmas[: index + 2]), corrected
            evaluations.append(
                Evaluation(
                    level=Level(alpha, sigma),
                    t=timesteps[index],
                    p=p,
                    q=q,
                    x=_mix(x),
                    r=_mix(r),
                    prediction=Prediction.X_0 if self.predict_x0 else Prediction.EPS,
                )
            )
        return Table.of(evaluations)

    def _ladder(self, num_inference_steps: int) -> tuple[Array, Array]:
        """Return the timesteps `(n,)` and the σ at the start and end of each step `(n + 1,)`."""
        trained = training_sigmas(self, zero_terminal_snr=self.rescale_betas_zero_snr)
        top = trained[-1] if self.sigma_max is None else self.sigma_max
        bottom = trained[0] if self.sigma_min is None else self.sigma_min
        sigmas = self.respaced(top, bottom, num_inference_steps)
        if sigmas is None:
            timesteps = multistep_timesteps(self, num_inference_steps, self.num_train_timesteps)
            sigmas, least = trained[timesteps.astype(int)], trained[0]
        else:
            timesteps, least = sigma_to_timestep(sigmas, trained), sigmas[-1]
            timesteps = timesteps.round() if self.use_karras_sigmas else np.floor(timesteps)
        return timesteps, np.append(sigmas, least if self.final_sigmas_type == "sigma_min" else 0.0)

    def _order(self, index: int, begin: int, steps: int) -> int:
        """Return the order of the step at `index`; it is lower near the first and the last step."""
        ends = steps - index if self.lower_order_final else self.solver_order
        return min(self.solver_order, ends, index - begin + 1)

    def _predicted(self, x: Array, order: int, sigmas: Array) -> Array:
        """Return x' for a step from `sigmas[-2]`, the σ of x, to `sigmas[-1]`, as weights by `Term`."""
        step = _Step(self, sigmas[-1], sigmas[-2])
        start = step.keep * x - step.gain * H[0]
        if order == 1:
            return start
        ratios = step.ratios(sigmas[-3 : -2 - order : -1])
        rho = np.array([0.5]) if order == 2 else step.solve(np.append(ratios, 1.0), order - 1)
        slopes = [(H[age + 1] - H[0]) / ratio for age, ratio in enumerate(ratios)]
        predicted: Array = start - step.scale * step.b_h * (rho @ slopes)
        return predicted

    def _corrected(self, order: int, sigmas: Array) -> Array:
        """Return the corrected x at `sigmas[-1]`, computed from the saved x at `sigmas[-2]`."""
        step = _Step(self, sigmas[-1], sigmas[-2])
        ratios = np.append(step.ratios(sigmas[-3 : -2 - order : -1]), 1.0)
        rho = np.array([0.5]) if order == 1 else step.solve(ratios, order)
        others = [*H[2 : order + 1], H[0]]  # the earlier h, and h_0 at the predicted x
        slopes = [(other - H[1]) / ratio for other, ratio in zip(others, ratios, strict=True)]
        corrected: Array = step.keep * R - step.gain * H[1] - step.scale * step.b_h * (rho @ slopes)
        return corrected


class _Step:
    """The numbers of the step from σ `s` to σ `t` in the paper's names, in terms of x_0 or of eps."""

    def __init__(self, config: UniPC, t: float, s: float) -> None:
        (alpha_t, sigma_t), (alpha_s, sigma_s) = alpha_sigma(t), alpha_sigma(s)
        self.lambda_s = -np.log(s)
        self.h = -np.log(t) - self.lambda_s
        if config.predict_x0:
            self.hh, self.keep, self.scale = -self.h, sigma_t / sigma_s, alpha_t
            self.phi_1 = t / s - 1  # expm1(hh)
            self.gain = alpha_t * self.phi_1
        else:
            self.hh, self.keep, self.scale = self.h, alpha_t / alpha_s, sigma_t
            self.phi_1 = s / t - 1
            self.gain = alpha_t * s - sigma_t  # sigma_t·phi_1, finite if t is 0
        self.b_h = self.hh if config.solver_type == "bh1" else self.phi_1

    def ratios(self, sigmas: Array) -> Array:
        """Return r_k = (λ_k - λ_s)/h of the earlier `sigmas`."""
        ratios: Array = (-np.log(sigmas) - self.lambda_s) / self.h
        return ratios

    def solve(self, ratios: Array, order: int) -> Array:
        """Return ρ that solve the first `order` conditions R·ρ = b; NaN if a σ repeats."""
        b, phi, factorial = [], self.phi_1 / self.hh - 1, 1
        for power in range(1, order + 1):
            b.append(phi * factorial / self.b_h)
            factorial *= power + 1
            phi = phi / self.hh - 1 / factorial
        matrix = np.vander(ratios[:order], order, increasing=True).T
        try:
            return np.linalg.solve(matrix, np.array(b))
        except np.linalg.LinAlgError:
            return np.full(order, np.nan)


X, R, *H = np.eye(7)
"""Unit weights by `Term`, without the noise: x, the saved x, h_0 to h_4."""


def _mix(weights: Array) -> Mix:
    x, r, *h = weights.tolist()
    return Mix(x=x, r=r, h=h)
