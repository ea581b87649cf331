"""InvokeAI's metadata and this bot's own recipe are read; other JSON is refused in one sentence."""

import json
from typing import Any

import pytest

from bot.generation_data import NoGenerationData, Tool, read_text
from sdjax_engine.request import Lora

VERSION_3 = {
    "app_version": "3.5.0",
    "generation_mode": "txt2img",
    "positive_prompt": "a bird",
    "negative_prompt": "frame",
    "width": 512,
    "height": 768,
    "seed": 5,
    "rand_device": "cpu",
    "cfg_scale": 7.5,
    "cfg_rescale_multiplier": 0.0,
    "steps": 30,
    "scheduler": "dpmpp_2m_k",
    "clip_skip": 1,
    "model": {"model_name": "dream", "base_model": "sd-1", "model_type": "main"},
    "loras": [{"lora": {"model_name": "ink", "base_model": "sd-1"}, "weight": 0.75}],
    "controlnets": [],
}
VERSION_4 = {
    "generation_mode": "sdxl_txt2img",
    "positive_prompt": "a bird",
    "seed": 5,
    "model": {"key": "k", "hash": "blake3:abc", "name": "Juggernaut XL", "base": "sdxl", "type": "main"},
    "loras": [{"model": {"key": "l", "name": "fog", "type": "lora"}, "weight": 1}],
    "seamless_x": True,
    "controlnets": [{"control_model": {"name": "canny"}}],
}
VERSION_2 = {
    "model": "stable diffusion",
    "model_weights": "stable-diffusion-1.5",
    "model_hash": "cc6cb27103",
    "app_version": "2.3.0",
    "image": {
        "prompt": [{"prompt": "a bird [frame] on a branch [ugly]", "weight": 1.0}],
        "steps": 50,
        "cfg_scale": 7.5,
        "sampler": "k_euler_a",
        "height": 512,
        "width": 640,
        "seed": 9,
        "type": "txt2img",
    },
}
OWN = {
    "version": 1,
    "request": {
        "prompt": " a bird ",
        "negative_prompt": "",
        "seed": 4294967295,
        "num_inference_steps": 20,
        "guidance_scale": 7.25,
        "sampler": "dpmpp_2m_karras",
        "height": 768,
        "width": 512,
        "model": "demo",
        "loras": [["ink", 0.1]],
    },
    "extra": {"job": "x"},
}
STARTED = {"version": 1, "request": {**OWN["request"], "init_image": "00ff", "strength": 0.3}}  # type: ignore[dict-item]
PROMPTED = {"version": 1, "request": {**OWN["request"], "control_image": "00", "image_prompt": "ff"}}  # type: ignore[dict-item]

SAMPLES: list[tuple[dict[str, Any], dict[str, object]]] = [
    (VERSION_3, {"tool": Tool.INVOKEAI, "prompt": "a bird", "negative_prompt": "frame", "clip_skip": 2}),
    (
        VERSION_3,
        {"width": 512, "height": 768, "steps": 30, "guidance": 7.5, "sampler": "dpmpp_2m_k", "seed": 5},
    ),
    (
        VERSION_3,
        {"model": "dream", "loras": (Lora(name="ink", weight=0.75),), "started": False, "strength": None},
    ),
    (VERSION_4, {"model": "Juggernaut XL", "model_hash": "blake3:abc", "loras": (Lora(name="fog"),)}),
    (VERSION_4, {"unread": ("seamless_x: True", "controlnets: 1")}),
    ({**VERSION_4, "generation_mode": "img2img", "strength": 0.6}, {"strength": 0.6, "started": True}),
    ({"metadata": VERSION_3}, {"prompt": "a bird", "steps": 30}),
    (VERSION_2, {"prompt": "a bird on a branch", "negative_prompt": "frame, ugly", "sampler": "k_euler_a"}),
    (VERSION_2, {"model": "stable-diffusion-1.5", "model_hash": "cc6cb27103", "seed": 9, "width": 640}),
    (OWN, {"tool": Tool.OWN, "prompt": " a bird ", "seed": 4294967295, "guidance": 7.25, "steps": 20}),
    (
        OWN,
        {
            "sampler": "dpmpp_2m_karras",
            "loras": (Lora(name="ink", weight=0.1),),
            "strength": None,
            "unread": (),
        },
    ),
    (STARTED, {"strength": 0.3, "started": True}),
    (
        {"version": 1, "request": {**OWN["request"], "references": ["00", "ff"]}},
        {"references": 2, "unread": ()},
    ),
    (PROMPTED, {"unread": ("control_type: edges", "image_prompt_strength: 1.0"), "started": False}),
]


@pytest.mark.parametrize(("found", "expected"), SAMPLES)
def test_json_is_read(found: dict[str, Any], expected: dict[str, object]) -> None:
    data = read_text(json.dumps(found))
    assert {name: getattr(data, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "generation_data_damaged"),
        ('{"a":' * 5000, "generation_data_damaged"),
        ("{" + '"a":[' * 3 + "[" * 50_000, "generation_data_damaged"),
        ('{"seed":' + "9" * 5000 + "}", "generation_data_damaged"),
        ("{}", "generation_data_none"),
        ('{"positive_prompt": 5}', "generation_data_none"),
        ('{"image": {"prompt": null}}', "generation_data_none"),
        ('{"version": 2, "request": {}}', "generation_data_version"),
        ('{"version": 1, "request": {"prompt": [], "seed": true}}', "generation_data_none"),
    ],
)
def test_other_json_is_refused_in_one_sentence(text: str, problem: str) -> None:
    with pytest.raises(NoGenerationData) as error:
        read_text(text)
    assert error.value.message_id == problem
