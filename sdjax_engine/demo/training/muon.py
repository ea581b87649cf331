"""Muon: every step of a matrix has singular values of about one, so rare things are learnt like common ones.

With AdamW, the demo's text encoder learnt what many objects share first, and what one has much later.
From https://kellerjordan.github.io/posts/muon, with steps as large as AdamW's (https://arxiv.org/abs/2502.16982).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

HIDDEN = re.compile(r"(blocks?|layers)\.")
"""In the names of the weights between a network's first and last layers."""
ROUNDS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)
"""Of the polynomial that brings every singular value to between 0.7 and 1.2."""
SIZE_OF_ADAMW = 0.2


def orthogonal(matrix: Tensor) -> Tensor:
    """Return a matrix with about the same singular vectors, whose singular values are about one.

    The rounds are computed in the square of the shorter side: a convolution is far longer than high.
    """
    wide = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    wide = wide / (wide.norm() + 1e-7)
    square, product = wide @ wide.T, torch.eye(len(wide), device=wide.device)
    linear, cubic, quintic = COEFFICIENTS
    for _ in range(ROUNDS):
        round_ = cubic * square + quintic * square @ square
        round_.diagonal().add_(linear)
        product, square = round_ @ product, round_ @ square @ round_
    wide = product @ wide
    return wide if len(matrix) <= matrix.shape[1] else wide.T


class Muon(torch.optim.Optimizer):
    """Stochastic gradient descent with Nesterov's momentum, whose steps are made orthogonal."""

    def __init__(
        self, params: Iterable[nn.Parameter], *, lr: float, weight_decay: float, momentum: float = 0.95
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # noqa: ARG002
        """Change every weight that has a gradient; with TF32 the rounds would magnify its rounding."""
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None:
                        self._change(weight, weight.grad, group)
        finally:
            torch.set_float32_matmul_precision(precision)

    def _change(self, weight: nn.Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
        mean.lerp_(gradient, 1 - group["momentum"])
        step = orthogonal(gradient.lerp(mean, group["momentum"]).flatten(1).float())
        step *= SIZE_OF_ADAMW * max(step.shape) ** 0.5
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(step.view_as(weight), alpha=-group["lr"])


class MuonAndAdamW:
    """Muon for the hidden matrices and convolutions of a module, and AdamW for all its other weights."""

    def __init__(self, module: nn.Module, *, lr: float, weight_decay: float) -> None:
        trained = [(name, each) for name, each in module.named_parameters() if each.requires_grad]
        hidden = [each for name, each in trained if each.ndim > 1 and HIDDEN.search(name)]
        chosen = {id(each) for each in hidden}
        others = [each for _, each in trained if id(each) not in chosen]
        self._parts = (
            Muon(hidden, lr=lr, weight_decay=weight_decay),
            torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.99), weight_decay=weight_decay),
        )

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of both, whose rates may be changed."""
        return list(chain.from_iterable(part.param_groups for part in self._parts))

    def zero_grad(self, *, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        for part in self._parts:
            part.zero_grad(set_to_none=set_to_none)

    def step(self) -> None:
        """Change every weight that has a gradient."""
        for part in self._parts:
            part.step()

    def state_dict(self) -> list[dict[str, Any]]:
        """Return what both remember."""
        return [part.state_dict() for part in self._parts]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        """Take up what both remembered."""
        for part, kept in zip(self._parts, state, strict=True):
            part.load_state_dict(kept)
