"""Muon, by which the demo's networks learn their matrices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sdjax_engine.demo.training.muon import Muon, MuonAndAdamW, orthogonal


@pytest.mark.parametrize("shape", [(16, 16), (12, 60), (60, 12)])
def test_a_step_has_the_directions_of_the_gradient_all_of_about_one_size(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    step = orthogonal(matrix)
    sizes = left.T @ step @ right.T
    assert values.max() > 2 * values.min()
    assert sizes.diag().min() > 0.6
    assert sizes.diag().max() < 1.3
    assert torch.allclose(sizes, sizes.diag().diag(), atol=0.02)


def test_a_step_is_as_large_as_one_of_adamw() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.zeros(24, 24, 3, 3))
    weight.grad = torch.randn_like(weight) * 100
    Muon([weight], lr=0.01, weight_decay=0.0).step()
    assert weight.detach().square().mean().sqrt() == pytest.approx(0.2 * 0.01, rel=0.2)


def test_a_rare_direction_is_learnt_like_a_common_one() -> None:
    torch.manual_seed(0)
    wanted = torch.eye(8)
    often = torch.logspace(0, -2, 8)  # the last is met a hundredth as often as the first

    def left(optimiser: torch.optim.Optimizer, weight: nn.Parameter) -> torch.Tensor:
        for _ in range(60):
            optimiser.zero_grad()
            ((weight - wanted).square() * often[:, None]).sum().backward()
            optimiser.step()
        return (1 - weight.detach().diag()).abs()

    by_muon, by_descent = (nn.Parameter(torch.zeros(8, 8)) for _ in range(2))
    rest = left(Muon([by_muon], lr=0.03, weight_decay=0.0), by_muon)
    assert rest.max() < 0.3
    assert left(torch.optim.SGD([by_descent], lr=0.3), by_descent).max() > 0.6


def test_only_matrices_between_the_first_and_the_last_layers_learn_by_muon() -> None:
    module = nn.Module()
    module.conv_in, module.layers = nn.Linear(4, 4), nn.ModuleList([nn.Linear(4, 4)])
    both = MuonAndAdamW(module, lr=0.1, weight_decay=0.0)
    for each in module.parameters():
        each.grad = torch.ones_like(each)
    both.step()
    muon, adamw = both.state_dict()
    assert len(muon["state"]) == 1
    assert len(adamw["state"]) == 3
    again = MuonAndAdamW(module, lr=0.1, weight_decay=0.0)
    again.load_state_dict(both.state_dict())
    assert all(torch.equal(a["mean"], b["mean"]) for a, b in zip(
        again.state_dict()[0]["state"].values(), muon["state"].values(), strict=True
    ))  # fmt: skip
