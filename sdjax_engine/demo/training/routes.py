"""Teaches the demo's UNet where to look: each place of a picture at the token that describes its cell.

A UNet knows where a place is only by the padding at the edges, and finds the token of a cell (see `layout`)
by chance: in 6,700 steps it did not. If its cross attention is told, a thousand quick steps suffice.

- At the two smaller sizes, two of the heads of a place look at the token of its cell.
- In the last attention of the middle size, where a cell has two by two places and more, a head for each
  quarter looks at the token there, and at the caption's first token elsewhere.
- At the full size a cell of a square picture has four by four places, and the attention of `HANDED` a head
  for each. The head of a place is handed what the token of its cell says of that place, by the map that
  `layout` taught; all others look at the caption's first token. While the heads learn where to look, the
  token is given to them. Without this attention a UNet has the tokens' contents, but blurs them over a cell.

The other attentions of the full size begin and stay without an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from diffusers import UNet2DConditionModel
from diffusers.models.attention_processor import Attention
from torch import Tensor, nn

from sdjax_engine.demo.training.layout import CELL, FIRST, GRID, Reader
from sdjax_engine.demo.training.loop import Course

COURSE = Course(name="routes", part=0.2, pictures=30_000, batch=16, rate=8e-4, decay=0.998, muon=True)
CELLS = (
    "down_blocks.2.attentions.0",
    "mid_block.attentions.0",
    "up_blocks.0.attentions.0",
    "up_blocks.0.attentions.1",
    "up_blocks.1.attentions.0",
)
QUARTERS = "up_blocks.1.attentions.1"
FULL_SIZE = ("up_blocks.2.attentions.0", "up_blocks.2.attentions.1")
HANDED = FULL_SIZE[0]
BLOCK = "transformer_blocks.0"
HANDED_CHANNELS, HANDED_SCALE, PASSED = 4, 64.0, 0.5
"""What is handed goes to that many directions of the channels, as strong as what is there."""
TOLD_PLACES = 96
"""Of a picture's places, those at which the heads of `HANDED` are told where to look in a step."""
CELLS_PART, HANDED_PART, OTHERS_PART = 0.05, 1.0, 2.0
Loss = Callable[[nn.Module, Any], tuple[Tensor, dict[str, Tensor]]]


def sources(count: int, length: int, shorter: int, places: int) -> Tensor:
    """Return the place of the square picture, of `places` in a line, that each of `count` places shows.

    The places cover `length` latents; `shorter` is the shorter side of all. A longer picture has the square
    one in its middle, and the square's edge beyond.
    """
    at = (torch.arange(count) + 0.5) * length / count - (length - shorter) / 2
    return (at * places / shorter).floor().long().clamp(0, places - 1)


def cells(places: int, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return the token of each place's cell, and its quarter of a square of four places, both `(places,)`.

    `height` and `width` are those of the latents; `places` is their number at a smaller size.
    """
    factor = round((height * width / places) ** 0.5)
    down, across = -(-height // factor), -(-width // factor)
    row = sources(down, down * factor, min(height, width), GRID)
    column = sources(across, across * factor, min(height, width), GRID)
    quarter = torch.arange(down)[:, None] % 2 * 2 + torch.arange(across) % 2
    return (FIRST + row[:, None] * GRID + column).flatten(), quarter.flatten()


def handed(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return the token of each place's cell, and the number of the place in it, both `(height * width,)`."""
    row, column = (sources(each, each, min(height, width), GRID * CELL)[:, None] for each in (height, width))
    token = FIRST + row // CELL * GRID + column.T // CELL
    return token.flatten(), (row % CELL * CELL + column.T % CELL).flatten()


def _split(states: Tensor, heads: int) -> Tensor:
    return states.unflatten(-1, (heads, -1)).transpose(1, 2)


class _Told:
    """Cross attention that keeps how far its heads are from looking where they should."""

    def __init__(self, routes: Routes, *, quarters: bool) -> None:
        self._routes, self._quarters = routes, quarters

    def __call__(
        self, attn: Attention, hidden_states: Tensor, encoder_hidden_states: Tensor, **_: object
    ) -> Tensor:
        query, key, value = (
            _split(projected(states), attn.heads)
            for projected, states in (
                (attn.to_q, hidden_states),
                (attn.to_k, encoder_hidden_states),
                (attn.to_v, encoder_hidden_states),
            )
        )
        looks = ((query @ key.transpose(-1, -2)).float() * attn.scale).log_softmax(-1)
        tokens, quarter = cells(hidden_states.shape[1], *self._routes.size)
        tokens, quarter = tokens.to(looks.device), quarter.to(looks.device)
        if self._quarters:
            wanted = torch.stack([torch.where(quarter == each, tokens, 0) for each in range(4)])
        else:
            wanted = tokens.expand(attn.heads // 2, -1)
        told = looks[:, : len(wanted)].gather(-1, wanted[None, :, :, None].expand(len(looks), -1, -1, 1))
        self._routes.errors.append(-CELLS_PART * told.mean())
        seen = (looks.exp().to(value.dtype) @ value).transpose(1, 2).flatten(2)
        return attn.to_out[1](attn.to_out[0](seen))


class _Handed:
    """Cross attention of which each head has its places of a cell, given the tokens or told where to look."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def __call__(
        self, attn: Attention, hidden_states: Tensor, encoder_hidden_states: Tensor, **_: object
    ) -> Tensor:
        device, places = hidden_states.device, hidden_states.shape[1]
        token, number = (each.to(device) for each in handed(*self._routes.size))
        own = number[None, :] == torch.arange(attn.heads, device=device)[:, None]
        key, value = (_split(each(encoder_hidden_states), attn.heads) for each in (attn.to_k, attn.to_v))
        given = self._routes.given
        chosen = torch.randperm(places, device=device)[: TOLD_PLACES if given else places]
        query = _split(attn.to_q(hidden_states[:, chosen]), attn.heads)
        looks = ((query @ key.transpose(-1, -2)).float() * attn.scale).log_softmax(-1)
        wanted = torch.where(own, token, 0)[:, chosen]
        errors = -looks.gather(-1, wanted[None, ..., None].expand(len(looks), -1, -1, 1)).squeeze(-1)
        of_own = own[:, chosen]
        error = (errors * of_own).sum(1).mean()
        error = error + OTHERS_PART * (errors * ~of_own).sum(1).mean() / (attn.heads - 1)
        self._routes.errors.append(HANDED_PART * error)
        if given:
            seen = torch.where(own[None, :, :, None], value[:, :, token], value[:, :, :1])
        else:
            seen = torch.empty_like(value[:, :, :1]).expand(-1, -1, places, -1).clone()
            seen[:, :, chosen] = looks.exp().to(value.dtype) @ value
        return attn.to_out[1](attn.to_out[0](seen.transpose(1, 2).flatten(2)))


class _Idle:
    """Cross attention that has no effect, and costs nothing."""

    def __call__(self, _: Attention, hidden_states: Tensor, **__: object) -> Tensor:
        return torch.zeros_like(hidden_states)


class Routes:
    """Tells a UNet's cross attention where to look, and keeps how far its last pass was from it.

    With `given`, the heads of `HANDED` get the right tokens wherever they look.
    """

    def __init__(self, unet: UNet2DConditionModel, *, given: bool) -> None:
        self.size, self.given = (0, 0), given
        self.errors: list[Tensor] = []
        unet.register_forward_pre_hook(self._begin)
        for name in (*CELLS, QUARTERS):
            attention = unet.get_submodule(f"{name}.{BLOCK}.attn2")
            attention.set_processor(_Told(self, quarters=name == QUARTERS))
        for name in FULL_SIZE:
            for attention in (unet.get_submodule(f"{name}.{BLOCK}.{each}") for each in ("attn1", "attn2")):
                attention.set_processor(_Idle())
                attention.requires_grad_(False)
        attention = unet.get_submodule(f"{HANDED}.{BLOCK}.attn2")
        attention.set_processor(_Handed(self))
        attention.requires_grad_(True)

    def _begin(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.size = tuple(inputs[0].shape[-2:])
        self.errors.clear()

    def added_to(self, loss: Loss) -> Loss:
        """Return a loss that also counts the weighted cross entropy of where the UNet looked."""

        def both(module: nn.Module, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
            value, figures = loss(module, batch)
            error = torch.stack(self.errors).sum()
            return value + error, {**figures, "routes": error.detach()}

        return both


@torch.no_grad()
def hand_contents(unet: UNet2DConditionModel, reader: Reader) -> None:
    """Let `HANDED` begin as the map that `layout` taught, and the other attentions of its size as nothing."""
    for name in FULL_SIZE:
        transformer = unet.get_submodule(name)
        block = transformer.get_submodule(BLOCK)
        for last in (block.attn1.to_out[0], block.attn2.to_out[0], block.ff.net[2]):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        passed = PASSED if name == HANDED else 0.0
        transformer.proj_out.weight.copy_(
            passed * torch.eye(len(transformer.proj_out.weight))[..., None, None]
        )
        nn.init.zeros_(transformer.proj_out.bias)
    attention = unet.get_submodule(f"{HANDED}.{BLOCK}.attn2")
    contents = reader.content.weight.unflatten(0, (-1, attention.heads)).transpose(0, 1).flatten(0, 1)
    first = reader.first_token()
    attention.to_v.weight.copy_(contents - torch.outer(contents @ first, first) / first.square().sum())
    torch.manual_seed(5)
    directions = torch.linalg.qr(torch.randn(len(attention.to_out[0].weight), HANDED_CHANNELS)).Q
    attention.to_out[0].weight.copy_(HANDED_SCALE * directions.repeat(1, attention.heads))
