"""Teaches the demo's UNet where to look: each place of a picture at the token that describes its cell.

A UNet knows where a place is only by the padding at the edges, and finds the token of a cell (see `layout`)
by chance: in 6,700 steps it did not. If its cross attention is told, a thousand quick steps suffice. In half
of the heads a place looks at the token of its cell. In the last attention of the middle size, where a cell
has two by two places and more, a head for each quarter looks at the token there, and at the caption's first
token elsewhere, so that the places of a cell can differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from diffusers import UNet2DConditionModel
from diffusers.models.attention_processor import Attention
from torch import Tensor, nn

from sdjax_engine.demo.training.layout import FIRST, GRID
from sdjax_engine.demo.training.loop import Course

COURSE = Course(name="routes", part=0.03, pictures=6_000, batch=4, rate=1e-3)
CELLS = (
    "down_blocks.2.attentions.0",
    "mid_block.attentions.0",
    "up_blocks.0.attentions.0",
    "up_blocks.0.attentions.1",
    "up_blocks.1.attentions.0",
)
QUARTERS = "up_blocks.1.attentions.1"
Loss = Callable[[nn.Module, Any], tuple[Tensor, dict[str, Tensor]]]


def cells(places: int, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return the token of each place's cell, and its quarter of a square of four places, both `(places,)`.

    `height` and `width` are those of the latents; `places` is their number at a smaller size.
    """
    factor = round((height * width / places) ** 0.5)
    down = torch.arange(-(-height // factor))
    across = torch.arange(-(-width // factor))
    row = ((down + 0.5) * factor * GRID / height).long().clamp(max=GRID - 1)
    column = ((across + 0.5) * factor * GRID / width).long().clamp(max=GRID - 1)
    quarter = down[:, None] % 2 * 2 + across % 2
    return (FIRST + row[:, None] * GRID + column).flatten(), quarter.flatten()


class _Told:
    """Cross attention that keeps how far its heads are from looking where they should."""

    def __init__(self, routes: Routes, *, quarters: bool) -> None:
        self._routes, self._quarters = routes, quarters

    def __call__(
        self, attn: Attention, hidden_states: Tensor, encoder_hidden_states: Tensor, **_: object
    ) -> Tensor:
        def split(states: Tensor) -> Tensor:
            return states.unflatten(-1, (attn.heads, -1)).transpose(1, 2)

        query = split(attn.to_q(hidden_states))
        key, value = split(attn.to_k(encoder_hidden_states)), split(attn.to_v(encoder_hidden_states))
        looks = ((query @ key.transpose(-1, -2)).float() * attn.scale).log_softmax(-1)
        tokens, quarter = cells(hidden_states.shape[1], *self._routes.size)
        tokens, quarter = tokens.to(looks.device), quarter.to(looks.device)
        if self._quarters:
            wanted = torch.stack([torch.where(quarter == each, tokens, 0) for each in range(4)])
        else:
            wanted = tokens.expand(attn.heads // 2, -1)
        told = looks[:, : len(wanted)].gather(-1, wanted[None, :, :, None].expand(len(looks), -1, -1, 1))
        self._routes.errors.append(-told.mean())
        seen = (looks.exp().to(value.dtype) @ value).transpose(1, 2).flatten(2)
        return attn.to_out[1](attn.to_out[0](seen))


class Routes:
    """Tells a UNet's cross attention where to look, and keeps how far its last pass was from it."""

    def __init__(self, unet: UNet2DConditionModel) -> None:
        self.size = (0, 0)
        self.errors: list[Tensor] = []
        unet.register_forward_pre_hook(self._begin)
        for name in (*CELLS, QUARTERS):
            attention = unet.get_submodule(f"{name}.transformer_blocks.0.attn2")
            attention.set_processor(_Told(self, quarters=name == QUARTERS))

    def _begin(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.size = tuple(inputs[0].shape[-2:])
        self.errors.clear()

    def added_to(self, loss: Loss, *, pictures: float, routes: float) -> Loss:
        """Return a loss that also counts the mean cross entropy of where the UNet looked."""

        def both(module: nn.Module, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
            value, figures = loss(module, batch)
            error = torch.stack(self.errors).mean()
            return pictures * value + routes * error, {**figures, "routes": error.detach()}

        return both
