"""Finished pictures of the engine before they are rounded, for comparison with the reference's pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import torch
from flax import nnx

from sdjax_engine import devices, painting
from sdjax_engine.lanes import DeviceLane
from sdjax_engine.loaded import LoadedModel
from sdjax_engine.programs import Compiler
from sdjax_engine.request import Offer, Request
from sdjax_engine.weights import load_checkpoint

Pixels = npt.NDArray[np.float32]


class Painter:
    """A checkpoint, its lanes compiled when they are first wanted; all requests of one call share a lane."""

    def __init__(self, source: Path, offer: Offer, **how: Any) -> None:
        devices.setup_cpu(2)
        self.compiler = Compiler(mesh=devices.open_mesh(), report=lambda _line: None)
        checkpoint = load_checkpoint(
            str(source), put=lambda each: devices.replicate(each, self.compiler.mesh), **how
        )
        self.model = LoadedModel(offer, checkpoint, self.compiler)

    def paint(self, requests: Sequence[Request]) -> list[Pixels]:
        """Pictures (height, width, 3) from 0 to 1."""
        count = devices.device_count(self.compiler.mesh)
        lane = DeviceLane(
            requests[0].lane,
            self.model,
            seats_per_device=-(-len(requests) // count),
            compiler=self.compiler,
        )
        prepared = {seat: self.model.prepare(request) for seat, request in enumerate(requests)}
        lane.admit(prepared)
        lane.denoise({seat: (0, each.evaluations) for seat, each in prepared.items()})
        decode = nnx.merge(self.model.vae.graphdef, self.model.vae.state).decode
        latents = jnp.asarray(lane.latents()[: len(requests)])
        return list(np.asarray(painting.to_unit(decode(latents / self.model.scaling_factor))))


def as_latents(noise: jax.Array) -> torch.Tensor:
    """Noise (h, w, c) as the reference has it, (1, c, h, w)."""
    return torch.from_numpy(np.array(noise).transpose(2, 0, 1)[None])
