"""DPM-Solver++: Lu et al. 2022 (arXiv 2211.01095), multistep, ODE and SDE; and k-diffusion's SDE."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from sdjax_engine.samplers.euler import exploding_evaluation, to_goal
from sdjax_engine.samplers.schedules import (
    Array,
    Beta,
    Off,
    SigmaConfig,
    alpha_sigma,
    exploding_ladder,
    exponential_sigmas,
    initial_sigma,
    multistep_timesteps,
    sigma_to_timestep,
    training_sigmas,
    x_0_weights,
)
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Table

# Variance types that do not matter here. Learned variances are further output channels: not supported.
Unlearned = Literal["fixed_small", "fixed_small_log", "fixed_large", "fixed_large_log"]
Algorithm = Literal["dpmsolver++", "sde-dpmsolver++"]
# The reference replaces solver types of other schedulers by its own nearest type.
Solver = Annotated[
    Literal["midpoint", "heun"],
    BeforeValidator(lambda name: "midpoint" if name in ("logrho", "bh1", "bh2") else name),
]


class DPMpp2M(SigmaConfig):
    """`DPMSolverMultistepScheduler` with `dpmsolver++`, on a variance-preserving x.

    The σ of Karras have a sampler of their own; the checkpoint chooses among the other spacings.
    """

    reference: ClassVar[str] = "DPMSolverMultistepScheduler"
    named: ClassVar[frozenset[str]] = frozenset({"algorithm_type", "use_karras_sigmas"})

    prediction_type: Literal["epsilon", "v_prediction", "sample"] = "epsilon"
    rescale_betas_zero_snr: bool = False
    solver_order: Literal[1, 2, 3] = 2
    algorithm_type: Algorithm = "dpmsolver++"
    solver_type: Solver = "midpoint"
    lower_order_final: bool = True
    euler_at_final: bool = False
    final_sigmas_type: Literal["zero", "sigma_min"] = "zero"
    lambda_min_clipped: float = -np.inf
    use_lu_lambdas: bool = False
    use_flow_sigmas: Off = False
    thresholding: Off = False
    variance_type: Unlearned | None = None

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        timesteps, sigmas = self._ladder(num_inference_steps)
        evaluations = []
        for index, t in list(enumerate(timesteps))[begin:]:
            alpha, sigma = alpha_sigma(sigmas[index])
            p, q = x_0_weights(self.prediction_type, alpha=alpha, sigma=sigma)
            order = min(self._order(index, len(timesteps)), index - begin + 1)
            x = self._mix(order, sigmas[: index + 2])
            evaluations.append(Evaluation(level=Level(alpha, sigma), t=t, p=p, q=q, x=x))
        return Table.of(evaluations)

    def _ladder(self, num_inference_steps: int) -> tuple[Array, Array]:
        """Return the timesteps `(n,)` and the σ at the start and end of each step `(n + 1,)`."""
        trained = training_sigmas(self, zero_terminal_snr=self.rescale_betas_zero_snr)
        last = trained[0] if self.final_sigmas_type == "sigma_min" else 0.0
        if self.use_lu_lambdas and not self.use_karras_sigmas:
            sigmas: Array | None = exponential_sigmas(trained[-1], trained[0], num_inference_steps)
        else:
            sigmas = self.respaced(trained[-1], trained[0], num_inference_steps)
        if sigmas is None:
            timesteps = self._timesteps(num_inference_steps, trained)
            return timesteps, np.append(trained[timesteps.astype(int)], last)
        timesteps = sigma_to_timestep(sigmas, trained)
        rounds = self.use_karras_sigmas or self.use_lu_lambdas
        rounds = rounds and self.beta_schedule != "squaredcos_cap_v2"
        return timesteps.round() if rounds else np.floor(timesteps), np.append(sigmas, last)

    def _timesteps(self, num_inference_steps: int, trained: Array) -> Array:
        """Return whole timesteps, limited to λ of at least `lambda_min_clipped`."""
        last = int(np.count_nonzero(-np.log(trained) >= self.lambda_min_clipped))
        return multistep_timesteps(self, num_inference_steps, last)

    def _order(self, index: int, steps: int) -> int:
        """Return the order of the step at `index`, given a full history; it is lower near the end."""
        few = self.lower_order_final and steps < 15
        if index == steps - 1 and (few or self.euler_at_final or self.final_sigmas_type == "zero"):
            return 1
        if index == steps - 2 and few:
            return min(self.solver_order, 2)
        return self.solver_order

    def _mix(self, order: int, sigmas: Array) -> Mix:
        """Return x' for a step from `sigmas[-2]` to `sigmas[-1]`; earlier σ come first in `sigmas`."""
        alpha_t, sigma_t = alpha_sigma(sigmas[-1])
        _, sigma_s = alpha_sigma(sigmas[-2])
        decay = sigmas[-1] / sigmas[-2]  # e^-h with h = λ_t - λ_s; finite even if the last σ is 0
        stochastic = self.algorithm_type == "sde-dpmsolver++"
        rate = 2 if stochastic else 1
        gain = 1 - decay**rate
        h = alpha_t * gain * np.eye(3)[0]
        if order > 1:
            h = h + alpha_t * self._corrections(order, gain, rate, -np.log(sigmas[-order - 1 :]))
        keep = sigma_t / sigma_s * (decay if stochastic else 1.0)
        return Mix(x=keep, h=tuple(h), z=sigma_t * gain**0.5 if stochastic else 0.0)

    def _corrections(self, order: int, gain: float, rate: int, lambdas: Array) -> Array:
        """Return the weights of h_0, h_1, h_2 that a higher order adds, for alpha_t = 1.

        `lambdas` are the λ of the kept x_0, oldest first, and of the goal.
        """
        m_0, m_1, m_2 = np.eye(3)
        steps = np.diff(lambdas)[::-1]
        h = steps[0]
        if h == 0:  # final_sigmas_type = sigma_min, and σ are at sigma_min already
            return np.zeros(3)
        slope = 1 - gain / (rate * h)
        first_difference: Array = (m_0 - m_1) * h / steps[1]
        if order == 2:
            return first_difference * np.float64(gain / 2 if self.solver_type == "midpoint" else slope)
        r_0, r_1 = steps[1] / h, steps[2] / h
        change = first_difference - (m_1 - m_2) / r_1
        first, second = first_difference + change * r_0 / (r_0 + r_1), change / (r_0 + r_1)
        # The reference's sign of 0.5 for the SDE; the derivation of the ODE suggests the opposite sign.
        half = 0.5 if rate == 1 else -0.5
        weights: Array = first * slope + second * (half - (rate * h - gain) / (rate * h) ** 2)
        return weights


class DPMpp2MKarras(DPMpp2M):
    """`DPMpp2M` with the σ of Karras et al. 2022 (`use_karras_sigmas`)."""

    named: ClassVar[frozenset[str]] = DPMpp2M.named | {
        "use_exponential_sigmas",
        "use_beta_sigmas",
        "use_lu_lambdas",
    }

    use_karras_sigmas: bool = True


class DPMpp2MSDE(DPMpp2M):
    """`DPMpp2M` with fresh noise at every step (`sde-dpmsolver++`)."""

    algorithm_type: Algorithm = "sde-dpmsolver++"


class DPMpp2MSDEKarras(DPMpp2MKarras):
    """`DPMpp2M` with the σ of Karras et al. and fresh noise at every step."""

    algorithm_type: Algorithm = "sde-dpmsolver++"


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
