"""The shapes of a lane's arrays; nothing here is on the devices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.denoising.state import (
    Conditioning,
    KeysValues,
    Newcomer,
    SamplerState,
    SeatInputs,
    SeatState,
    StartPicture,
)
from sdjax_engine.lane.rows import SeatGrid
from sdjax_engine.memory import devices
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.model.pictures import Fitted
from sdjax_engine.models.unet_config import TIME_IDS
from sdjax_engine.request import MAX_VARIATIONS, Lane
from sdjax_engine.samplers import MAX_ROWS, ROW
from sdjax_engine.samplers.tables import HISTORY


@dataclass(frozen=True, kw_only=True)
class LaneShapes:
    """The shapes of the arrays of one lane with `seats_per_device` seats on each device.

    Every array is spread over the devices along its first axis.
    """

    lane: Lane
    model: LoadedModel
    seats_per_device: int

    @property
    def key(self) -> object:
        """What the programs depend on besides their arguments, as plain data."""
        return [self.lane.height, self.lane.width, self.model.key]

    @property
    def devices(self) -> int:
        """How many devices the lane is spread over."""
        return self.model.device_count

    @property
    def seats(self) -> int:
        """How many seats there are on all devices."""
        return self.devices * self.seats_per_device

    @property
    def halves(self) -> int:
        """How many texts a seat has."""
        return self.model.halves(self.lane)

    @property
    def grid(self) -> SeatGrid:
        """How many devices, seats and texts there are."""
        return SeatGrid(devices=self.devices, seats_per_device=self.seats_per_device, halves=self.halves)

    @property
    def latents(self) -> tuple[int, int, int]:
        """Height, width and channels of a latent picture."""
        factor = self.model.vae_scale_factor
        return self.lane.height // factor, self.lane.width // factor, self.model.latent_channels

    @property
    def bytes_per_device(self) -> int:
        """The memory that the seats need on each device, in bytes."""
        leaves: list[jax.ShapeDtypeStruct] = jax.tree.leaves(self.state)
        return int(sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)) // self.devices

    @property
    def state(self) -> SeatState:
        """The state of all seats."""
        count, model = self.seats, self.model
        halves, encoding = self.halves, model.encoding
        sampler = SamplerState(
            x=self.rows(count, *self.latents),
            r=self.rows(count, *self.latents),
            history=self.rows(count, HISTORY, *self.latents),
        )
        inputs = SeatInputs(
            noise=self.rows(count, *self.latents),
            start=self.start(count),
            conditioning=Conditioning(
                keys_values=self.keys_values(count),
                lengths=self.rows(count, halves, dtype=np.int32),
                text_embeds=self.rows(count, halves, *encoding.pooled.shape[1:], dtype=encoding.pooled.dtype),
                time_ids=self.rows(count, self.sizes),
                lora_rows=self.rows(count, model.loras.rank, dtype=np.int32),
                lora_scales=self.rows(count, model.loras.rank),
            ),
            seed=self.rows(count, dtype=np.uint32),
            rows=self.rows(count, MAX_ROWS, ROW),
        )
        return SeatState(sampler=sampler, inputs=inputs)

    def keys_values(self, count: int) -> KeysValues:
        """Return the keys and values of so many seats."""
        hidden = self.model.encoding.hidden
        halves, tokens = self.halves, hidden.shape[1]
        return {
            path: (
                self.rows(count, halves, tokens, width, dtype=hidden.dtype),
                self.rows(count, halves, tokens, width, dtype=hidden.dtype),
            )
            for path, width in self.model.widths_of_keys_values.items()
        }

    def start(self, count: int) -> StartPicture:
        """Return the starts of so many pictures."""
        height, width, _ = self.latents
        return StartPicture(
            latents=self.rows(count, *self.latents),
            mask=self.rows(count, height, width, 1),
            channels=self.rows(count, height, width, self.model.networks.further_channels),
        )

    @property
    def newcomer(self) -> Newcomer[Any]:
        """One newcomer for each device."""
        count, rank = self.devices, self.model.loras.rank
        return Newcomer(
            seat=self.rows(count, dtype=np.int32),
            seed=self.rows(count, dtype=np.uint32),
            variation_seeds=self.rows(count, MAX_VARIATIONS, dtype=np.uint32),
            variation_strengths=self.rows(count, MAX_VARIATIONS),
            init_noise_sigma=self.rows(count),
            init_latent_scale=self.rows(count),
            time_ids=self.rows(count, self.sizes),
            lora_rows=self.rows(count, rank, dtype=np.int32),
            lora_scales=self.rows(count, rank),
            rows=self.rows(count, MAX_ROWS, ROW),
        )

    @property
    def pictures(self) -> tuple[Any, Any]:
        """Pixels and mask of one start picture for each device."""
        count, height, width = self.devices, self.lane.height, self.lane.width
        return (
            self.rows(count, height, width, 3, dtype=np.uint8),
            self.rows(count, height, width, dtype=np.bool_),
        )

    def start_pictures(self, by_device: Mapping[int, Fitted | None]) -> tuple[Any, Any]:
        """Return pixels and mask of the start picture of each device, as `pictures` says.

        Without a mask, or without a picture, the whole picture is repainted.
        """
        pixels, mask = zeros(self.pictures)
        mask[:] = True
        for device, picture in by_device.items():
            if picture is not None:
                pixels[device], mask[device] = picture.pixels, picture.mask
        return pixels, mask

    @property
    def sizes(self) -> int:
        """How many numbers describe a picture's sizes to the UNet; 0 if it is not conditioned on them."""
        return TIME_IDS if self.model.networks.takes_sizes else 0

    def rows(self, *shape: int, dtype: npt.DTypeLike = np.float32) -> Any:
        """Return the shape of an array whose rows are spread over the devices."""
        return devices.spread_shape(shape, dtype, self.model.mesh)


def zeros(shapes: Any) -> Any:
    """Return arrays of zeros on the host of these shapes."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
