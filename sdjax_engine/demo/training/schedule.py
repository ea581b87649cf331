"""The learning-rate schedule and the running average of weights that the training scripts share."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Generic, TypeVar

import torch
from torch import nn


class OneCycle:
    """Linear warm-up to each parameter group's peak rate, then a cosine down to a fiftieth of it."""

    def __init__(self, optimiser: torch.optim.Optimizer, *, warmup: float = 0.03) -> None:
        self._optimiser, self._warmup = optimiser, warmup
        self._peaks = [group["lr"] for group in optimiser.param_groups]

    def set(self, progress: float) -> None:
        """Set the learning rates for the training's `progress`, from 0 to 1."""
        cosine = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
        factor = min((progress + 1e-4) / self._warmup, 1.0) * (0.02 + 0.98 * cosine)
        for group, peak in zip(self._optimiser.param_groups, self._peaks, strict=True):
            group["lr"] = peak * factor


Module = TypeVar("Module", bound=nn.Module)


class Average(Generic[Module]):
    """Exponential moving average of a module's parameters, kept in a copy of the module."""

    def __init__(self, module: Module, *, decay: float) -> None:
        self.module = copy.deepcopy(module)
        self.module.eval().requires_grad_(False)
        self._decay, self._count = decay, 0

    @torch.no_grad()
    def update(self, parameters: Iterable[nn.Parameter]) -> None:
        self._count += 1
        decay = min(self._decay, (1 + self._count) / (10 + self._count))
        averages = [average.data for average in self.module.parameters()]
        torch._foreach_lerp_(averages, [p.data for p in parameters], 1 - decay)
