"""IP-Adapters from their files, with the image encoder that each needs.

A file holds the projection of a picture to tokens, `image_proj`, and two maps for each cross-attention,
`ip_adapter`. Its tensors tell whether it is a plain adapter or a Plus; the names of the projection are those
of the first program or of diffusers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint, quoted
from sdjax_engine.json_files import read_json
from sdjax_engine.models.config import IMAGE_ENCODER
from sdjax_engine.models.image_prompt_config import ATTENTIONS as MAPS
from sdjax_engine.models.image_prompt_config import PLAIN, PLUS, in_order
from sdjax_engine.weights.cache import Cache
from sdjax_engine.weights.checkpoint import Component
from sdjax_engine.weights.files import TRANSFORMERS_STEM, Report, find_named_folder, weight_files
from sdjax_engine.weights.load import DTYPES, Put, load_networks
from sdjax_engine.weights.networks import Part, infer_part, settle_config
from sdjax_engine.weights.tensors import Stored, stored_tensors, tensors_in

ENCODER, PROJECTION, ATTENTIONS = "encoder", "projection", "attentions"
"""The three networks of an image prompt."""
CONFIG, BESIDE = "config.json", "image_encoder"
OF_PROJECTION, OF_ATTENTIONS = "image_proj.", "ip_adapter."
TO_K = ".to_k.kernel"
HEAD_WIDTH = 64  # of a Plus, as in the reference
HEADS = 16  # of the encoders that may come without a config.json
MODELS = {768: "Stable Diffusion 1", 1024: "Stable Diffusion 2", 2048: "SDXL"}
"""Kinds of models by the width of the texts that their cross-attentions read."""
ENCODERS = {1280: "CLIP ViT-H", 1664: "CLIP ViT-bigG"}
"""Published encoders by the width of their states."""
EMBEDDERS = {1024: "CLIP ViT-H", 1280: "CLIP ViT-bigG"}
"""The same by the width of their embeddings."""
STRANGERS = (
    (re.compile(r"ip_adapter\..*lora.*|.*perceiver_resampler\..*"), "an IP-Adapter for faces"),
    (re.compile(r"image_proj\.proj\.3\..*"), "an IP-Adapter Full"),
    (re.compile(r"image_proj\.proj\.[02]\..*"), "an IP-Adapter for faces"),
    (re.compile(r"lora_(unet|te).*|.*\.lora_(A|B|down|up)\..*"), "a LoRA"),
)
RENAMED: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(rf"layers\.(\d+)\.{old}"), rf"layers.\1.{new}")
    for old, new in (
        (r"0\.norm1\.", "ln0."),
        (r"0\.norm2\.", "ln1."),
        (r"0\.to_out\.", "attn.to_out.0."),
        (r"0\.to_", "attn.to_"),
        (r"1\.0\.", "ff.0."),
        (r"1\.1\.", "ff.1.net.0.proj."),
        (r"1\.3\.", "ff.1.net.2."),
    )
)
"""The names of a Plus in its first program, and today's."""

Shapes = Mapping[str, Sequence[int]]


def load_image_prompt(
    parts: Mapping[str, Part], name: str, *, put: Put, by_output: bool = False, cache_dir: Path | None = None
) -> dict[str, Component]:
    """Read the weights of the three networks, which are kept in the cache under this `name`."""
    return load_networks(
        parts,
        origin=parts[PROJECTION].origin,
        cache=Cache.of(cache_dir, f"image prompt {name}"),
        cached_as={each: f"image_prompt {each}" for each in parts},
        put=put,
        by_output=by_output,
    )


def read_image_prompt(
    source: str,
    encoder: str | None,
    denoiser: Shapes,
    *,
    dtype: str = "float32",
    report: Report | None = None,
) -> dict[str, Part]:
    """Return the networks of the adapter file `source` and its image encoder before weights are read.

    `encoder` is a folder, a hub id or a .safetensors file; None: the folder image_encoder beside the file.
    `denoiser` are the shapes of the denoiser's parameters. Raises UnreadableCheckpoint.
    """
    file, parts = Path(source).expanduser(), read_adapter(source, denoiser, dtype=dtype)
    named = encoder if encoder is not None else str(file.parent / BESIDE)
    if encoder is None and not Path(named).is_dir():
        raise UnreadableCheckpoint(
            f"{file} needs its image encoder: put the folder {BESIDE} beside it, or name it with the key "
            "image_encoder."
        )
    parts = {ENCODER: replace(read_encoder(named, report), dtype=DTYPES[dtype]), **parts}
    check_encoder(file, named, parts)
    return parts


def read_adapter(source: str, denoiser: Shapes, *, dtype: str = "float32") -> dict[str, Part]:
    """Return the networks of the adapter file `source` without its encoder, as `read_image_prompt` does."""
    file = Path(source).expanduser()
    layers = cross_attentions_of(denoiser)
    if not layers:
        raise UnreadableCheckpoint("A model of this kind takes no image prompts: leave image_prompt out.")
    if not file.is_file():
        raise UnreadableCheckpoint(f"There is no IP-Adapter file “{source}”.")
    tensors = tensors_in(file)
    check_kind(file, tensors)
    attentions = under(OF_ATTENTIONS, tensors)
    check_model(file, attentions, layers)
    parts = {
        PROJECTION: read_projection(file, under(OF_PROJECTION, tensors)),
        ATTENTIONS: Part(
            model=MAPS,
            config={
                "cross_attention_dim": next(iter(layers.values()))[0],
                "widths": {place: width for place, (_, width) in layers.items()},
            },
            stored={OF_ATTENTIONS + name: stored for name, stored in attentions.items()},
            origin=str(file),
        ),
    }
    check_tokens(file, parts)
    return {name: replace(part, dtype=DTYPES[dtype]) for name, part in parts.items()}


def cross_attentions_of(denoiser: Shapes) -> dict[str, tuple[int, int]]:
    """Return the widths of the texts and of the layer, of each cross-attention by its place."""
    found = {key.removesuffix(TO_K): shape for key, shape in denoiser.items() if key.endswith(TO_K)}
    return {place: (found[place][0], found[place][1]) for place in in_order(found)}


def under(prefix: str, tensors: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return the tensors whose names have this prefix, without it."""
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}


def check_kind(file: Path, tensors: Mapping[str, Stored]) -> None:
    """Raise UnreadableCheckpoint, which says what the file is, unless it is an adapter that is supported."""
    kinds = [kind for pattern, kind in STRANGERS if any(map(pattern.fullmatch, tensors))]
    named = all(name.startswith((OF_PROJECTION, OF_ATTENTIONS)) for name in tensors)
    if kinds or not named or not tensors:
        raise UnreadableCheckpoint(
            f"{file} is not supported: it is {kinds[0] if kinds else 'no IP-Adapter'}, and image_prompt "
            "names a plain IP-Adapter or a Plus."
        )


def check_model(file: Path, attentions: Mapping[str, Stored], layers: Mapping[str, tuple[int, int]]) -> None:
    """Raise UnreadableCheckpoint where an adapter was made for another kind of model."""
    keys = {name: each.shape for name, each in attentions.items() if name.endswith(".to_k_ip.weight")}
    wanted = {
        f"{2 * number + 1}.to_k_ip.weight": (width, context)
        for number, (context, width) in enumerate(layers.values())
    }
    if keys == wanted:
        return
    texts, own = {shape[-1] for shape in keys.values() if shape}, {context for context, _ in layers.values()}
    theirs, ours = (
        sorted(MODELS.get(width, f"texts of the width {width}") for width in each) for each in (texts, own)
    )
    if texts != own:
        raise UnreadableCheckpoint(
            f"{file} is an IP-Adapter for {' and '.join(theirs) or 'no model'}, and this model is one for "
            f"{' and '.join(ours)}: name another file."
        )
    raise UnreadableCheckpoint(
        f"{file} is an IP-Adapter for another model: it has {len(keys)} cross-attentions, and this model "
        f"{len(layers)}, or they differ in their widths."
    )


def check_tokens(file: Path, parts: Mapping[str, Part]) -> None:
    """Raise UnreadableCheckpoint where the two halves of a file are of adapters for different models."""
    projection = parts[PROJECTION]
    made = projection.config["output_dims" if projection.model == PLUS else "cross_attention_dim"]
    wanted = parts[ATTENTIONS].config["cross_attention_dim"]
    if made != wanted:
        raise UnreadableCheckpoint(
            f"{file} is no whole IP-Adapter: its projection makes tokens of the width {made}, and its "
            f"cross-attentions read {wanted}. Download it again."
        )


def check_encoder(file: Path, encoder: str, parts: Mapping[str, Part]) -> None:
    """Raise UnreadableCheckpoint where an adapter was made for another image encoder."""
    projection, made = parts[PROJECTION], parts[ENCODER].config
    if projection.model == PLUS:
        wanted, found, names = projection.config["embed_dims"], made["hidden_size"], ENCODERS
    else:
        wanted, found, names = projection.config["image_embed_dim"], made["projection_dim"], EMBEDDERS
    if wanted != found:
        theirs, ours = (names.get(width, "one") for width in (wanted, found))
        raise UnreadableCheckpoint(
            f"{file} needs another image encoder than {encoder}: {theirs} of the width {wanted}, not {ours} "
            f"of {found}. Name it with the key image_encoder."
        )


def read_projection(file: Path, tensors: Mapping[str, Stored]) -> Part:
    """Return the map from a picture's encoding to its tokens; raises UnreadableCheckpoint."""
    if "latents" in tensors:
        return infer_part(file, PLUS, "projection", lambda: resampler_names(tensors), resampler_config)
    return infer_part(
        file,
        PLAIN,
        "projection",
        lambda: {re.sub(r"^proj\.", "image_embeds.", name): each for name, each in tensors.items()},
        projection_config,
    )


def projection_config(stored: Mapping[str, Stored]) -> dict[str, Any]:
    """Return the settings of a plain adapter's projection from its tensors."""
    rows, embedding = sizes(stored, "image_embeds.weight", 2)
    (width,) = sizes(stored, "norm.weight", 1)
    return {
        "image_embed_dim": embedding,
        "cross_attention_dim": width,
        "num_image_text_embeds": rows // width,
    }


def resampler_names(tensors: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return the tensors of a Plus by today's names; keys and values may be one tensor."""
    found: dict[str, Stored] = {}
    for name, each in tensors.items():
        for pattern, today in RENAMED:
            name = pattern.sub(today, name, count=1)  # noqa: PLW2901 – one pattern fits
        names = [name.replace("to_kv", part) for part in ("to_k", "to_v")] if "to_kv" in name else [name]
        for index, today in enumerate(names):
            if today in found:
                raise ValueError(f"two tensors are {quoted(today)}")
            found[today] = each.share(index, len(names))
    return found


def resampler_config(stored: Mapping[str, Stored]) -> dict[str, Any]:
    """Return the settings of a Plus from its tensors by today's names."""
    _, queries, hidden = sizes(stored, "latents", 3)
    output, _ = sizes(stored, "proj_out.weight", 2)
    _, states = sizes(stored, "proj_in.weight", 2)
    inner, _ = sizes(stored, "layers.0.ff.1.net.0.proj.weight", 2)
    rows, _ = sizes(stored, "layers.0.attn.to_q.weight", 2)
    layers = (name.split(".")[1] for name in stored if name.startswith("layers."))
    return {
        "embed_dims": states,
        "output_dims": output,
        "hidden_dims": hidden,
        "inner": inner,
        "depth": 1 + max(map(int, layers)),
        "dim_head": HEAD_WIDTH,
        "heads": rows // HEAD_WIDTH,
        "num_queries": queries,
    }


def sizes(stored: Mapping[str, Stored], name: str, axes: int) -> tuple[int, ...]:
    """Return the shape of a tensor; raises KeyError or ValueError where it is none of so many axes."""
    shape = stored[name].shape
    if len(shape) != axes or 0 in shape:
        raise ValueError(f"{name} has the shape {shape}")
    return shape


def read_encoder(source: str, report: Report | None) -> Part:
    """Return the image encoder in a folder, or in a file of a published one; raises UnreadableCheckpoint."""
    path = Path(source).expanduser()
    if path.is_file():
        return infer_part(
            path,
            IMAGE_ENCODER,
            "image encoder",
            lambda: stored_tensors(IMAGE_ENCODER, (path,)),
            encoder_config,
        )
    folder = find_named_folder(source, (CONFIG, f"{TRANSFORMERS_STEM}.safetensors"), report)
    file = folder / CONFIG
    return Part(
        model=IMAGE_ENCODER,
        config=settle_config(IMAGE_ENCODER, read_json(file), origin=str(file)),
        stored=stored_tensors(IMAGE_ENCODER, weight_files(folder, variant=None, stem=TRANSFORMERS_STEM)),
        origin=str(file),
    )


def encoder_config(stored: Mapping[str, Stored]) -> dict[str, Any]:
    """Return the config.json of a published image encoder, whose file has none.

    Heads and activation are not in the tensors, and those of the published encoders are the same.
    """
    width, _, patch, _ = sizes(stored, "vision_model.embeddings.patch_embedding.weight", 4)
    if width not in ENCODERS:
        raise ValueError(f"an encoder of the width {width}, which needs its folder with {CONFIG}")
    positions, _ = sizes(stored, "vision_model.embeddings.position_embedding.weight", 2)
    inner, _ = sizes(stored, "vision_model.encoder.layers.0.mlp.fc1.weight", 2)
    projected, _ = sizes(stored, "visual_projection.weight", 2)
    layers = (name.split(".")[3] for name in stored if name.startswith("vision_model.encoder.layers."))
    return {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": 1 + max(map(int, layers)),
        "num_attention_heads": HEADS,
        "image_size": patch * math.isqrt(positions - 1),
        "patch_size": patch,
        "hidden_act": "gelu",
        "projection_dim": projected,
    }
