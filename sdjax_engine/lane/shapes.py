"""What fixes the arrays of a lane, and their shapes; nothing here lies on the devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.denoising.state import Conditioning, KeysValues, Newcomer, SeatState, StartPicture
from sdjax_engine.memory import devices
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane
from sdjax_engine.samplers import MAX_ROWS, ROW
from sdjax_engine.samplers.tables import HISTORY


@dataclass(frozen=True, kw_only=True)
class LaneShapes:
    """What fixes the arrays of a lane: a model, a size, guided or not, and the seats of each device.

    Arrays of the devices are given as shapes, each spread over the devices along its first axis.
    """

    lane: Lane
    model: LoadedModel
    seats_per_device: int

    @property
    def facts(self) -> object:
        """All that the programs depend on beside their arguments."""
        return [self.lane.height, self.lane.width, self.model.facts]

    @property
    def devices(self) -> int:
        """How many devices the lane is spread over."""
        return devices.device_count(self.model.mesh)

    @property
    def seats(self) -> int:
        """How many seats there are on all devices."""
        return self.devices * self.seats_per_device

    @property
    def latents(self) -> tuple[int, int, int]:
        """Height, width and channels of a latent picture."""
        factor = self.model.vae_scale_factor
        return self.lane.height // factor, self.lane.width // factor, self.model.latent_channels

    @property
    def held(self) -> int:
        """What the seats hold of each device's memory, in bytes."""
        leaves: list[jax.ShapeDtypeStruct] = jax.tree.leaves(self.state)
        return int(sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)) // self.devices

    @property
    def state(self) -> SeatState:
        """What the seats hold."""
        count, model = self.seats, self.model
        halves, encoding = model.halves(self.lane), model.encoding
        return SeatState(
            x=self.rows(count, *self.latents),
            r=self.rows(count, *self.latents),
            history=self.rows(count, HISTORY, *self.latents),
            noise=self.rows(count, *self.latents),
            start=self.start(count),
            conditioning=Conditioning(
                keys_values=self.keys_values(count),
                lengths=self.rows(count, halves, dtype=np.int32),
                text_embeds=self.rows(count, halves, *encoding.pooled.shape[1:], dtype=encoding.pooled.dtype),
                time_ids=self.rows(count, self.sizes_told),
                lora_rows=self.rows(count, model.loras.rank, dtype=np.int32),
                lora_scales=self.rows(count, model.loras.rank),
            ),
            guidance_scale=self.rows(count),
            seed=self.rows(count, dtype=np.uint32),
            rows=self.rows(count, MAX_ROWS, ROW),
        )

    def keys_values(self, count: int) -> KeysValues:
        """Return keys and values for so many seats."""
        hidden = self.model.encoding.hidden
        halves, tokens = self.model.halves(self.lane), hidden.shape[1]
        return {
            place: (
                self.rows(count, halves, tokens, width, dtype=hidden.dtype),
                self.rows(count, halves, tokens, width, dtype=hidden.dtype),
            )
            for place, width in self.model.widths_of_keys_values.items()
        }

    def start(self, count: int) -> StartPicture:
        """Return what so many pictures start from."""
        height, width, _ = self.latents
        return StartPicture(
            latents=self.rows(count, *self.latents),
            mask=self.rows(count, height, width, 1),
            channels=self.rows(count, height, width, self.model.further_channels),
        )

    def from_noise_alone(self) -> StartPicture:
        """Return what newcomers start from that start from noise alone, on the host."""
        rows: Any = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self.start(self.devices))
        rows.mask[:] = 1
        return cast("StartPicture", rows)

    def nobody(self) -> Newcomer[npt.NDArray[Any]]:
        """Return what the devices are told of newcomers, on the host, to be filled in: nobody comes."""
        count, rank = self.devices, self.model.loras.rank
        return Newcomer(
            seat=np.full(count, -1, np.int32),
            guidance_scale=np.zeros(count, np.float32),
            seed=np.zeros(count, np.uint32),
            init_noise_sigma=np.zeros(count, np.float32),
            init_latent_scale=np.zeros(count, np.float32),
            time_ids=np.zeros((count, self.sizes_told), np.float32),
            lora_rows=np.zeros((count, rank), np.int32),
            lora_scales=np.zeros((count, rank), np.float32),
            rows=np.zeros((count, MAX_ROWS, ROW), np.float32),
        )

    def no_pictures(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return pixels, mask and whether there is one, a row for each device; without a mask all is new."""
        count, height, width = self.devices, self.lane.height, self.lane.width
        pixels = np.zeros((count, height, width, 3), np.uint8)
        return pixels, np.ones((count, height, width), np.bool_), np.zeros(count, np.bool_)

    @property
    def sizes_told(self) -> int:
        """How many sizes the network is told of a picture."""
        return len(self.model.time_ids(self.lane.height, self.lane.width))

    def rows(self, *shape: int, dtype: npt.DTypeLike = np.float32) -> Any:
        """Return the form of an array."""
        return devices.spread_shape(shape, dtype, self.model.mesh)

    def like(self, rows: npt.NDArray[Any]) -> Any:
        """Return the form that an array of the host has on the devices."""
        return self.rows(*rows.shape, dtype=rows.dtype)

    def spread(self, rows: npt.NDArray[Any]) -> jax.Array:
        """Spread `rows` over the devices along their first axis."""
        return devices.shard(rows, self.model.mesh)
