"""The weights of TrustMark, variant P, from a folder or the hub, as published (.ckpt) or as safetensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.watermark_tasks import BITS
from sdjax_engine.weights.checkpoint import Component
from sdjax_engine.weights.file_names import Report
from sdjax_engine.weights.headers import read_header
from sdjax_engine.weights.load import DTYPES, fill
from sdjax_engine.weights.named_folder import find_named_folder
from sdjax_engine.weights.networks import NetworkPlan, Part, check_tensors, infer_part, plan_network
from sdjax_engine.weights.tensors import Stored, tensors_in
from sdjax_engine.weights.torch_file import tensors_of_torch

ENCODER, DECODER = "encoder_P", "decoder_P"
ENDINGS = (".safetensors", ".ckpt")
FILES = (
    *(f"{stem}.safetensor?" for stem in (ENCODER, DECODER)),
    *(f"{stem}.ckpt" for stem in (ENCODER, DECODER)),
)
_UNUSED = re.compile(r".*\.num_batches_tracked")
Config = dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class TrustMark:
    """The two networks of a watermark, in float32."""

    encoder: Component
    decoder: Component


def load_trustmark(source: str, *, report: Report | None = None) -> TrustMark:
    """Read the weights called `source`: a folder or a hub id with encoder_P and decoder_P.

    Raises UnreadableCheckpoint, in one sentence, for whatever is wrong.
    """
    plans = trustmark_plans(source, report=report)
    encoder, decoder = (fill(name, each, put=jax.device_put, cache=None) for name, each in plans.items())
    return TrustMark(encoder=encoder, decoder=decoder)


def trustmark_plans(source: str, *, report: Report | None = None) -> dict[str, NetworkPlan]:
    """Return the plans of encoder and decoder, whose tensors are all there; raises as `load_trustmark`."""
    folder = find_named_folder(source, FILES, report)
    parts = (
        _part(folder, ENCODER, "TrustMarkEncoder", "encoder.", _encoder_config),
        _part(folder, DECODER, "TrustMarkDecoder", "decoder.decoder.", _decoder_config),
    )
    if strange := [part for part in parts if part.config["bits"] != BITS]:
        raise UnreadableCheckpoint(
            f"{strange[0].origin} is for {strange[0].config['bits']} bits, and a watermark has {BITS}."
        )
    plans = {part.model: plan_network(part, dtype=DTYPES["float32"]) for part in parts}
    check_tensors(str(folder), plans)
    return plans


def _part(
    folder: Path, stem: str, model: str, prefix: str, config: Callable[[Mapping[str, Stored]], Config]
) -> Part:
    file = next((folder / f"{stem}{end}" for end in ENDINGS if (folder / f"{stem}{end}").is_file()), None)
    if file is None:
        raise UnreadableCheckpoint(
            f"{folder} holds no {stem}.ckpt: name the folder with the files of TrustMark, variant P."
        )
    tensors = tensors_of_torch(file) if file.suffix == ".ckpt" else tensors_in(file, read_header(file))
    # A file of the whole model may hold the tensors of both networks, and of its training.
    named = {
        name.removeprefix(prefix): stored
        for name, stored in tensors.items()
        if name.startswith(prefix) and not _UNUSED.fullmatch(name)
    }
    return infer_part(file, model, stem, lambda: named, config)


def _encoder_config(stored: Mapping[str, Stored]) -> Config:
    return {
        "bits": stored["secret2image.dense.weight"].shape[1],
        "width": stored["pre.conv.weight"].shape[0],
        "down": _count(stored, r"enc\.(\d+)\..*"),
        "middle": _count(stored, r"middle\.(\d+)\..*"),
    }


def _decoder_config(stored: Mapping[str, Stored]) -> Config:
    return {
        "bits": stored["fc.weight"].shape[0],
        "width": stored["conv1.weight"].shape[0],
        "blocks": [_count(stored, rf"layer{number}\.(\d+)\..*") for number in range(1, 5)],
    }


def _count(stored: Mapping[str, Stored], pattern: str) -> int:
    """Return how many modules of a list the names have."""
    return len({found[1] for name in stored if (found := re.fullmatch(pattern, name))})
