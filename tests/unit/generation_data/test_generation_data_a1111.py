"""Texts in the form of A1111, Forge, SD.Next, Civitai and Fooocus are read."""

import time
from contextlib import suppress

import pytest

from bot.generation_data import NoGenerationData, Tool, read_text
from bot.generation_data.data import SecondPassData
from sdjax_engine.images import parameters_text
from sdjax_engine.request import Lora, Request, Sampler

PLAIN = "a bird\nNegative prompt: frame\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 5, Size: 512x768"

SAMPLES = [
    (PLAIN, {"prompt": "a bird", "negative_prompt": "frame", "sampler": "Euler a", "steps": 20}),
    (PLAIN, {"guidance": 7.0, "seed": 5, "width": 512, "height": 768, "tool": Tool.A1111, "unread": ()}),
    (PLAIN.replace("\n", " "), {"prompt": "a bird", "negative_prompt": "frame", "steps": 20, "height": 768}),
    (PLAIN.replace("\n", "\r\n"), {"prompt": "a bird", "negative_prompt": "frame", "seed": 5}),
    ("a bird\nSteps: 20, Sampler: DDIM, Seed: 1", {"prompt": "a bird", "negative_prompt": "", "seed": 1}),
    ("Steps: 20, Sampler: DDIM, Seed: 1", {"prompt": "", "steps": 20}),
    (
        "two\nlines\nNegative prompt: no\nframe\nSteps: 9, Sampler: Heun, Seed: 2",
        {"prompt": "two\nlines", "negative_prompt": "no\nframe", "steps": 9},
    ),
    (
        "a\nSteps: 20, Sampler: DPM++ 2M, Schedule type: Karras, Seed: 3",
        {"sampler": "DPM++ 2M", "schedule": "Karras"},
    ),
    ("a\nSteps: 20, Sampler: DPM++ 2M Karras, Seed: 3", {"sampler": "DPM++ 2M Karras", "schedule": ""}),
    (
        "a\nSteps: 20, Seed: 3, Model hash: 6ce0161689, Model: v1-5-pruned-emaonly",
        {"model": "v1-5-pruned-emaonly", "model_hash": "6ce0161689"},
    ),
    ("a\nSteps: 20, Seed: 3, Model: folder\\dream.safetensors", {"model": "dream"}),
    ("a\nSteps: 20, Seed: 3, Clip skip: 2, ENSD: 31337", {"clip_skip": 2, "unread": ("ENSD: 31337",)}),
    ("a\nSteps: 20, Seed: 3, Denoising strength: 0.6", {"strength": 0.6, "started": True}),
    (
        "a\nSteps: 20, Seed: 3, Denoising strength: 0.4, Hires upscale: 2, Hires upscaler: Latent",
        {
            "strength": None,
            "started": False,
            "second_pass": SecondPassData(factor=2.0, strength=0.4),
            "unread": ("Hires upscaler: Latent",),
        },
    ),
    (
        'a <lora:ink:0.8>, b\nSteps: 20, Seed: 3, Lora hashes: "ink: 0a1b2c3d"',
        {"prompt": "a, b", "loras": (Lora(name="ink", weight=0.8),), "unread": ()},
    ),
    ("<lora:ink>, a\nSteps: 20, Seed: 3", {"prompt": "a", "loras": (Lora(name="ink"),)}),
    ("a, <lora:ink:0.5:0.9>\nSteps: 2, Seed: 3", {"prompt": "a", "loras": (Lora(name="ink", weight=0.5),)}),
    (
        "a <lora:ink:-1.25> <lora:fog:1>\nSteps: 2",
        {"loras": (Lora(name="ink", weight=-1.25), Lora(name="fog"))},
    ),
    ("a <lyco:sea:0.3>\nSteps: 2, Seed: 3", {"loras": (Lora(name="sea", weight=0.3),)}),
    ("a <hypernet:old:1>\nSteps: 2, Seed: 3", {"loras": (), "unread": ("hypernet: old",)}),
    (
        'a\nSteps: 20, Seed: 3, Hashes: {"model": "abc", "lora:ink": "def"}, Version: v1.10.1',
        {"seed": 3, "unread": ()},
    ),
    (
        'a\nSteps: 20, Seed: 3, ADetailer prompt: "a face, Steps: 5, Seed: 9", Size: 64x96',
        {"seed": 3, "steps": 20, "width": 64, "unread": ("ADetailer prompt: a face, Steps: 5, Seed: 9",)},
    ),
    (
        'a\nSteps: 30, CFG scale: 3.5, Sampler: Euler, Seed: 8, Civitai resources: [{"type":"checkpoint",'
        '"modelVersionId":1,"modelName":"Dream","modelVersionName":"v8"},{"type":"lora","weight":0.55,'
        '"modelVersionId":2,"modelName":"Fog"}], Civitai metadata: {}',
        {"model": "Dream", "loras": (Lora(name="Fog", weight=0.55),), "unread": ()},
    ),
    (
        'a\nSteps: 30, Seed: 8, Civitai resources: [{"type":"embed","modelName":"bad-hands"}]',
        {"unread": ("embed: bad-hands",), "model": ""},
    ),
    (
        "a\nSteps: 8, Sampler: Euler, Schedule type: Simple, CFG scale: 1, "
        "Distilled CFG Scale: 3.5, Seed: 4, Version: f2.0.1, Module 1: ae",
        {"schedule": "Simple", "guidance": 1.0, "unread": ("Distilled CFG Scale: 3.5",)},
    ),
    (
        "a\nNegative prompt: b\nSteps: 20, Size: 512x512, Sampler: UniPC, Seed: 7, CFG scale: 6, "
        "App: SD.Next, Parser: native, Operations: txt2img",
        {"sampler": "UniPC", "negative_prompt": "b", "unread": ()},
    ),
    (
        "a\nSampler: Euler, Seed: 6, Size: 640x512, CFG scale: 5",
        {"prompt": "a", "sampler": "Euler", "seed": 6, "width": 640, "steps": None},
    ),
    (
        "새 한 마리\nNegative prompt: 틀\nSteps: 20, Seed: 5",
        {"prompt": "새 한 마리", "negative_prompt": "틀"},
    ),
    ("```\na bird\nSteps: 20, Seed: 5\n```", {"prompt": "a bird", "seed": 5}),
    ("the 12 Steps: of it\nSteps: 20, Seed: 5", {"prompt": "the 12 Steps: of it", "steps": 20}),
    ("a\nSteps: many, Sampler: DDIM, Seed: 99999999999999999999999999999999999, Size: wide", {"seed": None}),
    ("a\nSteps: 20, Seed: 5, CFG scale: nan", {"guidance": None, "steps": 20}),
]


@pytest.mark.parametrize(("text", "expected"), SAMPLES)
def test_sample_is_read(text: str, expected: dict[str, object]) -> None:
    data = read_text(text)
    assert {name: getattr(data, name) for name in expected} == expected


def test_own_parameters_text_is_read() -> None:
    request = Request(
        prompt="a bird, at (dawn:1.2)",
        negative_prompt="frame",
        seed=2**32 - 1,
        num_inference_steps=20,
        guidance_scale=7.5,
        sampler=Sampler.EULER_ANCESTRAL,
        width=512,
        height=768,
        model="demo",
        loras=(Lora(name="ink", weight=0.8), Lora(name="fog")),
    )
    data = read_text(parameters_text(request))
    assert (data.prompt, data.negative_prompt, data.seed) == ("a bird, at (dawn:1.2)", "frame", 2**32 - 1)
    assert (data.model, data.loras, data.unread) == ("demo", request.loras, ())


@pytest.mark.parametrize("text", ["", "a bird", "a: b, c: d", "Negative prompt: x", "Steps", "Steps: "])
def test_text_without_settings_is_refused(text: str) -> None:
    with pytest.raises(NoGenerationData) as error:
        read_text(text)
    assert error.value.message_id == "generation_data_none"


def test_longer_text_than_the_limit_is_refused() -> None:
    with pytest.raises(NoGenerationData) as error:
        read_text("ü" * 33_000 + "\nSteps: 20, Seed: 1")
    assert error.value.message_id == "generation_data_long"


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        ":",
        ",",
        '"',
        "Steps: 1, ",
        "<lora:",
        "[",
        '["x:[",',
        "\n",
        "Negative prompt:",
        'a:"\\"',
        " ",
        "```",
    ],
)
def test_time_is_linear_in_the_length(piece: str) -> None:
    def seconds(length: int) -> float:
        """The least time of three readings."""
        text = (piece * length)[:length]
        taken = []
        for _ in range(3):
            begin = time.process_time()
            for tried in (text, f"Steps: 20, Seed: 1, {text}"[:length]):
                with suppress(NoGenerationData):
                    read_text(tried)
            taken.append(time.process_time() - begin)
        return min(taken)

    assert seconds(60_000) < 9 * seconds(15_000) + 0.05, "quadratic time would be sixteen times as long"
