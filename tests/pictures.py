"""Finished pictures of the engine before they are rounded, for comparison with the reference's pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import torch

from sdjax_engine.compiling.compiler import Compiler, Program
from sdjax_engine.denoising import traced
from sdjax_engine.families.family import Autoencoder, Parameters
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.memory import devices
from sdjax_engine.model.loaded import DECODING, LoadedModel
from sdjax_engine.model.loras import LoraBank
from sdjax_engine.request import Offer, Request
from sdjax_engine.weights import load_checkpoint
from sdjax_engine.weights.controlnet import load_controlnet
from sdjax_engine.weights.embeddings import read_banks, read_embeddings, rows_of, with_embeddings
from sdjax_engine.weights.image_prompt import load_image_prompt, read_image_prompt

Pixels = npt.NDArray[np.float32]


class CompilerWithoutDecoding(Compiler):
    """Leaves out the programs that decode and round a lane's pictures: `LanePainter` never calls them."""

    def compile(self, name: str, function: Any, *arguments: Any, **how: Any) -> Program:
        """Return an empty program in place of one that decodes."""
        if isinstance(function, partial) and function.func is traced.decode:
            return jax.jit(lambda: ()).lower().compile()
        return super().compile(name, function, *arguments, **how)


class LanePainter:
    """A checkpoint whose lanes are compiled on first use; all requests of one call share a lane."""

    def __init__(
        self,
        source: Path,
        offer: Offer,
        *,
        loras: Mapping[str, Path] = MappingProxyType({}),
        controlnets: Mapping[str, Path] = MappingProxyType({}),
        embeddings: Mapping[str, Path] = MappingProxyType({}),
        image_prompt: Path | None = None,
        **how: Any,
    ) -> None:
        devices.setup_cpu(2)
        self.compiler = CompilerWithoutDecoding(mesh=devices.open_mesh(), report=lambda _line: None)
        put = partial(devices.replicate, mesh=self.compiler.mesh)
        checkpoint = load_checkpoint(str(source), put=put, **how)
        nets = {name: load_controlnet(str(folder), put=put) for name, folder in controlnets.items()}
        checkpoint = replace(checkpoint, controlnets=nets)
        if image_prompt is not None:
            parts = read_image_prompt(str(image_prompt), None, checkpoint.components["unet"].shapes)
            checkpoint = replace(checkpoint, image_prompt=load_image_prompt(parts, "tiny", put=put))
        if embeddings:
            texts = checkpoint.family.networks(checkpoint, offer).texts
            found = read_embeddings(embeddings, texts)
            checkpoint = with_embeddings(checkpoint, rows_of(found), read_banks(found, texts), put)
        bank = LoraBank.load(loras, checkpoint, put)
        self.model = LoadedModel(offer, checkpoint, self.compiler, bank)
        self._decode = jax.jit(partial(decode, self.model.networks.autoencoder))

    def paint(self, requests: Sequence[Request]) -> list[Pixels]:
        """Pictures (height, width, 3) from 0 to 1."""
        count = devices.device_count(self.compiler.mesh)
        lane = DeviceLane(
            requests[0].lane,
            self.model,
            seats_per_device=-(-len(requests) // count),
            compiler=self.compiler,
            start_pictures=any(request.init_image for request in requests),
        )
        prepared = {seat: self.model.prepare(request) for seat, request in enumerate(requests)}
        lane.reset()
        lane.admit(prepared)
        lane.denoise({seat: (0, each.evaluations) for seat, each in prepared.items()})
        latents = jnp.asarray(np.asarray(lane._seated.sampler.x)[: len(requests)])
        [(autoencoder, _)] = self.model.on_devices(DECODING)
        return list(np.asarray(self._decode(autoencoder, latents)))


def decode(autoencoder: Autoencoder, parameters: Parameters, latents: jax.Array) -> jax.Array:
    """Decode `latents` (n, h, w, c) of a checkpoint to pictures (n, height, width, 3) from 0 to 1."""
    return traced.to_unit(autoencoder.decode(parameters, latents, in_float32=False))


def as_latents(noise: jax.Array) -> torch.Tensor:
    """Noise (h, w, c) as the reference has it, (1, c, h, w)."""
    return torch.from_numpy(np.array(noise).transpose(2, 0, 1)[None])
