"""A `workflow` of ComfyUI's editor as a `prompt`: its nodes have their values in a list, without names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bot.generation_data.data import NoGenerationData

MAX_NODES = 2000
MUTED, BYPASSED = 2, 4  # modes: left out with its links; left out, its inputs passed on
AFTER_SEED = ("fixed", "increment", "decrement", "randomize")  # the editor's own value after each seed

WIDGETS: Mapping[str, str] = {
    "KSampler": "seed steps cfg sampler_name scheduler denoise",
    "KSamplerAdvanced": "add_noise noise_seed steps cfg sampler_name scheduler start_at_step end_at_step "
    "return_with_leftover_noise",
    "SamplerCustom": "add_noise noise_seed cfg",
    "KSamplerSelect": "sampler_name",
    "BasicScheduler": "scheduler steps denoise",
    "CLIPTextEncode": "text",
    "CLIPTextEncodeSDXL": "width height crop_w crop_h target_width target_height text_g text_l",
    "EmptyLatentImage": "width height batch_size",
    "EmptySD3LatentImage": "width height batch_size",
    "CheckpointLoaderSimple": "ckpt_name",
    "UNETLoader": "unet_name",
    "LoraLoader": "lora_name strength_model strength_clip",
    "LoraLoaderModelOnly": "lora_name strength_model",
    "CLIPSetLastLayer": "stop_at_clip_layer",
    "LoadImage": "image",
    "PrimitiveNode": "value",
}


def prompt_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nodes by their ids, with named inputs; raises NoGenerationData for too many."""
    nodes = [node for node in found["nodes"] if isinstance(node, dict)]
    if len(nodes) > MAX_NODES:
        raise NoGenerationData("generation_data_graph")
    sources = dict(_sources(found.get("links")))
    return {
        str(node.get("id")): {"class_type": _kind(node), "inputs": _inputs(node, sources)}
        for node in nodes
        if node.get("mode") != MUTED
    }


def _kind(node: Mapping[str, Any]) -> Any:
    return "Reroute" if node.get("mode") == BYPASSED else node.get("type")


def _sources(links: Any) -> Iterator[tuple[int, list[Any]]]:
    """Yield the id of each link and the output it begins at."""
    for each in links if isinstance(links, list) else []:
        named = isinstance(each, dict)
        link = [each.get(name) for name in ("id", "origin_id", "origin_slot")] if named else each
        if isinstance(link, list) and len(link) >= 3 and isinstance(link[0], int):
            yield link[0], [str(link[1]), link[2]]


def _inputs(node: Mapping[str, Any], sources: Mapping[int, list[Any]]) -> dict[str, Any]:
    values = {} if node.get("mode") == BYPASSED else dict(_values(node))
    for found in _list(node.get("inputs")):
        if isinstance(found, dict) and isinstance(found.get("name"), str):
            link = found.get("link")
            if isinstance(link, int) and link in sources:
                values[found["name"]] = sources[link]
    return values


def _values(node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    written = node.get("widgets_values")
    if isinstance(written, dict):
        yield from ((str(name), value) for name, value in written.items())
        return
    left = _list(written)
    for name in WIDGETS.get(str(node.get("type")), "").split():
        if not left:
            return
        yield name, left.pop(0)
        if name.endswith("seed") and left and left[0] in AFTER_SEED:
            del left[0]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []
