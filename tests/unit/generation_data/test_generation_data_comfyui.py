"""ComfyUI's graphs are read as far as they are linear."""

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from counted_calls import calls_of

from bot.generation_data import NoGenerationData, Tool, read_text
from sdjax_engine.request import Lora

BASIC: dict[str, Any] = {
    "3": {
        "class_type": "KSampler",
        "inputs": {
            "seed": 156680208700286,
            "steps": 20,
            "cfg": 8,
            "sampler_name": "dpmpp_2m",
            "scheduler": "karras",
            "denoise": 1,
            "model": ["4", 0],
            "positive": ["6", 0],
            "negative": ["7", 0],
            "latent_image": ["5", 0],
        },
    },
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd/v1-5.safetensors"}},
    "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 512, "height": 768, "batch_size": 1}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a bird", "clip": ["4", 1]}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "frame", "clip": ["4", 1]}},
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["4", 2]}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["8", 0], "filename_prefix": "x"}},
}


def node(kind: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": kind, "inputs": inputs}


def graph(*, sampler: dict[str, Any] | None = None, **nodes: Any) -> dict[str, Any]:
    """The basic graph with these nodes added or replaced, and other inputs of its sampler."""
    made = copy.deepcopy(BASIC)
    made |= {name.removeprefix("n"): each for name, each in nodes.items()}
    made["3"]["inputs"] |= sampler or {}
    return made


LORA = node(
    "LoraLoader",
    lora_name="ink.safetensors",
    strength_model=0.8,
    strength_clip=1,
    model=["4", 0],
    clip=["4", 1],
)
SECOND_LORA = node("LoraLoaderModelOnly", lora_name="fog.safetensors", strength_model=0.5, model=["10", 0])
SDXL_WORDS = node(
    "CLIPTextEncodeSDXL", text_g="a bird", text_l="a bird", width=1024, height=1024, clip=["4", 1]
)
ADVANCED = node(
    "KSamplerAdvanced",
    add_noise="enable",
    noise_seed=7,
    steps=25,
    cfg=6.5,
    sampler_name="euler",
    scheduler="normal",
    start_at_step=0,
    end_at_step=20,
    model=["4", 0],
    positive=["6", 0],
    negative=["7", 0],
    latent_image=["5", 0],
)
SECOND_PASS = {**copy.deepcopy(BASIC["3"])}
SECOND_PASS["inputs"] = {**BASIC["3"]["inputs"], "latent_image": ["10", 0], "denoise": 0.5, "seed": 1}

SAMPLES = [
    (graph(), {"prompt": "a bird", "negative_prompt": "frame", "tool": Tool.COMFYUI, "model": "v1-5"}),
    (
        graph(),
        {"seed": 156680208700286, "steps": 20, "guidance": 8.0, "sampler": "dpmpp_2m", "schedule": "karras"},
    ),
    (graph(), {"width": 512, "height": 768, "strength": None, "started": False, "loras": (), "unread": ()}),
    ({"prompt": graph(), "client_id": "x"}, {"prompt": "a bird", "steps": 20}),
    (
        graph(n10=LORA, sampler={"model": ["10", 0]}),
        {"loras": (Lora(name="ink", weight=0.8),), "model": "v1-5"},
    ),
    (
        graph(n10=LORA, n11=SECOND_LORA, sampler={"model": ["11", 0]}),
        {"loras": (Lora(name="ink", weight=0.8), Lora(name="fog", weight=0.5))},
    ),
    (
        graph(
            n10=node("CLIPSetLastLayer", stop_at_clip_layer=-2, clip=["4", 1]),
            n6=node("CLIPTextEncode", text="a bird", clip=["10", 0]),
        ),
        {"clip_skip": 2, "prompt": "a bird"},
    ),
    (graph(n6=SDXL_WORDS), {"prompt": "a bird", "unread": ()}),
    (
        graph(n6=node("CLIPTextEncodeSDXL", text_g="a bird", text_l="ink", clip=["4", 1])),
        {"prompt": "a bird", "unread": ("text_l: ink",)},
    ),
    (graph(n3=ADVANCED), {"seed": 7, "steps": 25, "guidance": 6.5, "sampler": "euler", "schedule": "normal"}),
    (
        graph(
            n10=node("LatentUpscale", samples=["3", 0]),
            n11=SECOND_PASS,
            n8=node("VAEDecode", samples=["11", 0]),
        ),
        {"seed": 156680208700286, "unread": ("KSampler",), "width": 512},
    ),
    (
        graph(
            n12=node("LoadImage", image="a.png"),
            n5=node("VAEEncode", pixels=["12", 0]),
            sampler={"denoise": 0.6},
        ),
        {"strength": 0.6, "started": True, "width": None},
    ),
    (graph(n10=node("PrimitiveNode", value=42), sampler={"seed": ["10", 0]}), {"seed": 42}),
    (
        graph(n10=node("String Literal", string="a cat"), n6=node("CLIPTextEncode", text=["10", 0])),
        {"prompt": "a cat"},
    ),
    (
        graph(n7=node("ConditioningZeroOut", conditioning=["6", 0])),
        {"negative_prompt": "", "prompt": "a bird"},
    ),
    (
        graph(
            n10=node("ControlNetApply", conditioning=["6", 0], strength=1), sampler={"positive": ["10", 0]}
        ),
        {"prompt": "a bird", "unread": ("ControlNetApply",)},
    ),
    (
        graph(
            n10=node("ModelSamplingDiscrete", sampling="lcm", model=["4", 0]), sampler={"model": ["10", 0]}
        ),
        {"model": "v1-5", "unread": ("ModelSamplingDiscrete",)},
    ),
    (
        graph(n10=node("Reroute", input=["4", 0]), sampler={"model": ["10", 0]}),
        {"model": "v1-5", "unread": ()},
    ),
    (graph(n20=copy.deepcopy(BASIC["3"])), {"prompt": "a bird"}),  # the second sampler saves nothing
    (
        graph(
            n3=node(
                "SamplerCustom",
                noise_seed=3,
                cfg=1,
                model=["4", 0],
                positive=["6", 0],
                negative=["7", 0],
                sampler=["10", 0],
                sigmas=["11", 0],
                latent_image=["5", 0],
            ),
            n10=node("KSamplerSelect", sampler_name="euler_ancestral"),
            n11=node("BasicScheduler", scheduler="normal", steps=1),
        ),
        {"seed": 3, "sampler": "euler_ancestral", "schedule": "normal", "guidance": 1.0, "steps": 1},
    ),
]

WORKFLOW = {
    "last_node_id": 9,
    "nodes": [
        {
            "id": 3,
            "type": "KSampler",
            "mode": 0,
            "inputs": [
                {"name": "model", "type": "MODEL", "link": 1},
                {"name": "positive", "type": "CONDITIONING", "link": 4},
                {"name": "negative", "type": "CONDITIONING", "link": 6},
                {"name": "latent_image", "type": "LATENT", "link": 2},
            ],
            "widgets_values": [99, "randomize", 20, 8, "euler", "normal", 1],
        },
        {"id": 4, "type": "CheckpointLoaderSimple", "inputs": [], "widgets_values": ["v1-5.ckpt"]},
        {"id": 5, "type": "EmptyLatentImage", "widgets_values": [640, 512, 1]},
        {
            "id": 6,
            "type": "CLIPTextEncode",
            "inputs": [{"name": "clip", "link": 3}],
            "widgets_values": ["a bird"],
        },
        {
            "id": 7,
            "type": "CLIPTextEncode",
            "inputs": [{"name": "clip", "link": 5}],
            "widgets_values": ["frame"],
        },
        {
            "id": 8,
            "type": "KSampler",
            "mode": 4,
            "inputs": [],
            "widgets_values": [1, "fixed", 2, 3, "ddim", "x", 1],
        },
    ],
    "links": [
        [1, 4, 0, 3, 0, "MODEL"],
        [2, 5, 0, 3, 3, "LATENT"],
        [3, 4, 1, 6, 0, "CLIP"],
        [4, 6, 0, 3, 1, "CONDITIONING"],
        [5, 4, 1, 7, 0, "CLIP"],
        [6, 7, 0, 3, 2, "CONDITIONING"],
    ],
}

COMBINED = graph(
    n10=node("ConditioningCombine", conditioning_1=["6", 0], conditioning_2=["7", 0]),
    sampler={"positive": ["10", 0]},
)
TWO_CHAINS = graph(
    n20=copy.deepcopy(BASIC["3"]),
    n21=node("VAEDecode", samples=["20", 0]),
    n22=node("SaveImage", images=["21", 0]),
)
CYCLES = [
    graph(n10=node("Reroute", input=["10", 0]), sampler={"positive": ["10", 0]}),
    graph(sampler={"latent_image": ["3", 0], "positive": ["3", 0]}),
    graph(
        n10=node("X", conditioning=["11", 0]),
        n11=node("X", conditioning=["10", 0]),
        sampler={"positive": ["10", 0]},
    ),
]


@pytest.mark.parametrize(("found", "expected"), SAMPLES)
def test_prompt_is_read(found: dict[str, Any], expected: dict[str, object]) -> None:
    data = read_text(json.dumps(found))
    assert {name: getattr(data, name) for name in expected} == expected


def test_workflow_of_the_editor_is_read() -> None:
    data = read_text(json.dumps(WORKFLOW))
    assert (data.prompt, data.negative_prompt, data.model) == ("a bird", "frame", "v1-5")
    assert (data.seed, data.steps, data.guidance, data.width, data.height) == (99, 20, 8.0, 640, 512)
    assert (data.sampler, data.schedule) == ("euler", "normal")


@pytest.mark.parametrize(
    "found", [COMBINED, TWO_CHAINS, *CYCLES, {"1": node("LoadImage", image="x")}, {"nodes": []}]
)
def test_graph_that_is_not_linear_is_refused_in_one_sentence(found: dict[str, Any]) -> None:
    with pytest.raises(NoGenerationData) as error:
        read_text(json.dumps(found))
    assert error.value.message_id == "generation_data_graph"


@pytest.mark.parametrize("name", ["model", "seed", "steps", "sampler_name", "latent_image"])
def test_cycle_at_any_input_ends(name: str) -> None:
    found = graph(
        n10=node("X", value=["10", 0], model=["10", 0], samples=["10", 0]), sampler={name: ["10", 0]}
    )
    assert read_text(json.dumps(found)).prompt == "a bird"


def samplers_of_one_output(count: int) -> dict[str, Any]:
    found = {str(number): node("KSampler") for number in range(count)}
    return found | {"s": node("SaveImage", **{str(number): ["s", 0] for number in range(count)})}


def samplers_behind_one_chain(count: int) -> dict[str, Any]:
    found = {str(number): node("KSampler", latent_image=["a0", 0]) for number in range(count)}
    return found | {f"a{number}": node("R", samples=[f"a{number + 1}", 0]) for number in range(count)}


def chain_of_samplers(count: int) -> dict[str, Any]:
    found = {str(number + 1): node("KSampler", latent_image=[str(number), 0]) for number in range(count)}
    return found | {"s": node("SaveImage", images=[str(count), 0])}


@pytest.mark.parametrize("made", [samplers_of_one_output, samplers_behind_one_chain, chain_of_samplers])
def test_twice_the_nodes_are_about_twice_the_work(made: Callable[[int], dict[str, Any]]) -> None:
    def read(text: str) -> None:
        with suppress(NoGenerationData):
            read_text(text)

    one, two = (json.dumps(made(count)) for count in (200, 400))
    assert calls_of(lambda: read(two)) < 2.5 * calls_of(lambda: read(one))
