"""A model's files, checked as a start checks them, by their configurations and headers alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sdjax_engine.config import ModelSpec
from sdjax_engine.memory.ledger import sizes_of
from sdjax_engine.model.loaded import DENOISER, IMAGE_PROMPT, check_offer, controlnet_group, group_of
from sdjax_engine.model.loras import layer_shapes, read_all
from sdjax_engine.model.prepare import Planner
from sdjax_engine.samplers import pipeline_config
from sdjax_engine.startup.companions import check_labels
from sdjax_engine.weights.checkpoint import respaced
from sdjax_engine.weights.companions import labels_at, load_preview_decoder
from sdjax_engine.weights.controlnet import read_controlnet
from sdjax_engine.weights.embeddings import read_embeddings
from sdjax_engine.weights.files import DEMO, DEMO_FOLDER
from sdjax_engine.weights.image_prompt import read_adapter, read_image_prompt
from sdjax_engine.weights.load import in_host_memory, parts_of, read_contents
from sdjax_engine.weights.networks import Part, check_tensors


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The reference's pipeline, the bytes of all parameters, and those that a program needs at once."""

    pipeline: str
    size: int
    at_once: int


def local_path(source: str) -> Path | None:
    """Return the path of a checkpoint or a part on this machine, or None if it is on the hub."""
    try:
        path = DEMO_FOLDER if source == DEMO else Path(source).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long or closed, the home of nobody, a null character
        return None


def here(files: Mapping[str, Path]) -> dict[str, Path]:
    """Return the files that are on this machine."""
    return {name: file for name, file in files.items() if local_path(str(file)) is not None}


def check_model(spec: ModelSpec, *, dtype: str, previews: bool) -> Checked | None:
    """Check everything that a model names on this machine, and return its size; None if it is on the hub.

    The tensors must fit their configurations, the offer the checkpoint, and the ControlNets, the LoRAs, the
    embeddings, the image prompts, the classifier's labels and, with `previews`, the decoder the model. No
    weights of a checkpoint are read, and no device is opened. Raises UnreadableCheckpoint.
    """
    path = local_path(spec.source)
    if path is None or (spec.vae is not None and local_path(spec.vae) is None):
        return None
    contents = read_contents(
        path,
        variant=spec.variant,
        safety_checker=spec.safety_checker,
        vae=spec.vae,
        denoiser=spec.denoiser,
    )
    parts = parts_of(contents, dtype, spec.offer.int8)
    check_tensors(contents.origin, parts)
    shapes = {name: {each.key: each.shape for each in part.wanted.values()} for name, part in parts.items()}
    prompts = image_prompt_of(spec, shapes[contents.family.adaptable[0]], dtype)
    nets = {
        name: read_controlnet(source, dtype=dtype, variant=spec.variant)
        for name, source in spec.controlnets.items()
        if local_path(source) is not None
    }
    for net in nets.values():
        check_tensors(net.origin, {"the ControlNet": net})
    contents = replace(contents, controlnets=nets, image_prompt=prompts)
    types = tuple((kind, name) for kind, name in spec.offer.control_types if name in nets)
    offer = replace(spec.offer, controlnets=tuple(nets), control_types=types)
    networks = contents.family.networks(contents, offer)
    latents = networks.latents
    check_offer(offer, networks)
    read_embeddings(here(spec.embeddings), networks.texts)
    schedule = respaced(contents.scheduler_config, spec.timestep_spacing)
    Planner(spec.offer, pipeline_config(schedule, contents.family.corrections(contents.pipeline)))
    adaptable = {name: shapes[name] for name in contents.family.adaptable if name in shapes}
    read_all(here(spec.loras), layer_shapes(adaptable), contents.family.foreign_names, rank=spec.lora_rank)
    if spec.picture_classifier is not None and local_path(spec.picture_classifier) is not None:
        check_labels(spec, labels_at(spec.picture_classifier))
    if previews and spec.preview_decoder is not None and local_path(spec.preview_decoder) is not None:
        load_preview_decoder(
            spec.preview_decoder,
            latents=latents,
            dtype=dtype,
            put=in_host_memory,
        )
    groups = Counter[str]()
    for name, part in parts.items():
        groups[group_of(name, networks)] += part.size
    groups.update({controlnet_group(name): net.size for name, net in nets.items()})
    groups[IMAGE_PROMPT] = sum(part.size for part in prompts.values())
    size, at_once = sizes_of(groups, [(DENOISER, controlnet_group(name)) for name in nets])
    return Checked(pipeline=contents.pipeline, size=size, at_once=at_once)


def image_prompt_of(spec: ModelSpec, denoiser: Mapping[str, tuple[int, ...]], dtype: str) -> dict[str, Part]:
    """Check the networks of image prompts that are on this machine, by their headers, and return them.

    None are returned where the image encoder is on the hub. Raises UnreadableCheckpoint.
    """
    if spec.image_prompt is None or local_path(spec.image_prompt) is None:
        return {}
    if spec.image_encoder is not None and local_path(spec.image_encoder) is None:
        check_tensors(spec.image_prompt, read_adapter(spec.image_prompt, denoiser, dtype=dtype))
        return {}
    found = read_image_prompt(spec.image_prompt, spec.image_encoder, denoiser, dtype=dtype)
    check_tensors(spec.image_prompt, found)
    return found
