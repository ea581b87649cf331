"""Euler's method on a rectified flow: Liu et al. 2022 (arXiv 2209.03003), Esser et al. 2024 (2403.03206)."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from sdjax_engine.samplers.schedules import Array, Off, SigmaConfig
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Prediction, Table

PIXELS_OF_A_TOKEN = 16 * 16
MOST_TOKENS_OF_PLANE = 4300


class FlowEuler(SigmaConfig):
    """`FlowMatchEulerDiscreteScheduler`, on x = (1 - σ)·x_0 + σ·eps with m = eps - x_0.

    It has neither betas nor spacings. A scheduler_config.json does not say all: `ladder`, `mu` and
    `strength_rounds_up` are facts of the reference's pipelines, which a family adds. Without a `mu` there is
    no shift that depends on the picture's size.
    """

    reference: ClassVar[str] = "FlowMatchEulerDiscreteScheduler"
    predicts_flow: ClassVar[bool] = True

    shift: float = Field(1.0, gt=0)
    shift_terminal: float | None = Field(None, gt=0, lt=1)
    stochastic_sampling: bool = False
    ladder: Literal["shifted ends", "even"] = "shifted ends"
    """The σ before the shift: from 1 to the shifted σ of the first timestep, or evenly from 1 to 1/n."""
    strength_rounds_up: bool = False
    """How many steps a start picture leaves where its strength gives no whole number."""
    mu: Literal["linear", "empirical"] | None = None
    """The parameter of a dynamic shift: on the line through both `_shift`s at both `_image_seq_len`s, or
    FLUX.2's, which depends on the number of steps too."""
    use_dynamic_shifting: bool = False
    time_shift_type: Literal["exponential", "linear"] = "exponential"
    base_shift: float = 0.5
    max_shift: float = 1.15
    base_image_seq_len: int = 256
    max_image_seq_len: int = 4096
    invert_sigmas: Off = False
    prediction_type: Literal["flow_prediction"] = "flow_prediction"

    @field_validator("use_dynamic_shifting")
    @classmethod
    def _has_mu(cls, dynamic: bool, info: ValidationInfo) -> bool:
        if dynamic and info.data.get("mu") is None:
            raise ValueError("the pipeline gives no shift for the picture's size")
        return dynamic

    def sized(self, pixels: int, num_inference_steps: int) -> Self:
        """Return the settings with the shift for this size as a static one, which has the same formula."""
        if not self.use_dynamic_shifting:
            return self
        tokens = np.float64(pixels) / PIXELS_OF_A_TOKEN
        mu = empirical_mu(tokens, num_inference_steps) if self.mu == "empirical" else self._linear_mu(tokens)
        shift = np.exp(mu) if self.time_shift_type == "exponential" else mu
        return self.model_copy(update={"shift": float(shift)})

    def _linear_mu(self, tokens: np.float64) -> np.float64:
        span = np.float64(self.max_image_seq_len - self.base_image_seq_len)
        slope = (self.max_shift - self.base_shift) / span
        return self.base_shift + slope * (tokens - self.base_image_seq_len)

    def steps_left(self, num_inference_steps: int, strength: float) -> int:
        """Return how many of the steps a start picture of this strength leaves."""
        if not self.strength_rounds_up:
            return super().steps_left(num_inference_steps, strength)
        return num_inference_steps - int(num_inference_steps - num_inference_steps * strength)

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        sigmas = self._sigmas(num_inference_steps)
        goals = np.append(sigmas[1:], 0.0)
        pairs = list(zip(sigmas, goals, strict=True))[begin:]
        return Table.of([self._evaluation(sigma, goal) for sigma, goal in pairs])

    def _sigmas(self, num_inference_steps: int) -> Array:
        """Return σ falling from 1, `(n,)`.

        Of a ladder with shifted ends the reference shifts the ends first, if the shift is static, then all σ.
        """
        smallest = np.array(1 / (num_inference_steps if self.ladder == "even" else self.num_train_timesteps))
        if self.ladder == "shifted ends" and not self.use_dynamic_shifting:
            smallest = self._shifted(smallest)
        sigmas = self._shifted(np.linspace(1.0, smallest, num_inference_steps))
        if self.shift_terminal is not None:
            sigmas = 1 - (1 - sigmas) * (1 - self.shift_terminal) / (1 - sigmas[-1])
        respaced = self.respaced(sigmas[0], sigmas[-1], num_inference_steps)
        return sigmas if respaced is None else respaced

    def _shifted(self, sigmas: Array) -> Array:
        shifted: Array = self.shift * sigmas / (1 + (self.shift - 1) * sigmas)
        return shifted

    def _evaluation(self, sigma: float, goal: float) -> Evaluation:
        t, level = sigma * self.num_train_timesteps, Level(1 - sigma, sigma)
        if self.stochastic_sampling:
            return Evaluation(level=level, t=t, p=1.0, q=-sigma, x=Mix(h=[1 - goal], z=goal))
        x = Mix(x=1.0, h=[goal - sigma])
        return Evaluation(level=level, t=t, p=0.0, q=1.0, x=x, prediction=Prediction.FLOW)


def empirical_mu(tokens: np.float64, num_inference_steps: int) -> np.float64:
    """Return FLUX.2's parameter of the shift: a plane over tokens and steps, above 4300 tokens a line."""
    of_200 = 0.00016927 * tokens + 0.45666666
    if tokens > MOST_TOKENS_OF_PLANE:
        return of_200
    of_10 = 8.73809524e-05 * tokens + 1.89833333
    slope = (of_10 - of_200) / 190
    return of_200 + slope * (200 - num_inference_steps)
