"""Euler's method on a rectified flow: Liu et al. 2022 (arXiv 2209.03003), Esser et al. 2024 (2403.03206)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from sdjax_engine.samplers.schedules import Array, Off, SigmaConfig
from sdjax_engine.samplers.tables import Evaluation, Level, Mix, Prediction, Table


class FlowEuler(SigmaConfig):
    """`FlowMatchEulerDiscreteScheduler`, on x = (1 - σ)·x_0 + σ·eps with m = eps - x_0.

    It has neither betas nor spacings. A shift that depends on the picture's size is not supported.
    """

    reference: ClassVar[str] = "FlowMatchEulerDiscreteScheduler"
    predicts_flow: ClassVar[bool] = True

    shift: float = Field(1.0, gt=0)
    shift_terminal: float | None = Field(None, gt=0, lt=1)
    stochastic_sampling: bool = False
    use_dynamic_shifting: Off = False
    invert_sigmas: Off = False
    prediction_type: Literal["flow_prediction"] = "flow_prediction"

    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table."""
        sigmas = self._sigmas(num_inference_steps)
        goals = np.append(sigmas[1:], 0.0)
        pairs = list(zip(sigmas, goals, strict=True))[begin:]
        return Table.of([self._evaluation(sigma, goal) for sigma, goal in pairs])

    def _sigmas(self, num_inference_steps: int) -> Array:
        """Return σ falling from 1, `(n,)`; the reference shifts the ends first, then all σ."""
        smallest = self._shifted(np.array(1 / self.num_train_timesteps))
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
