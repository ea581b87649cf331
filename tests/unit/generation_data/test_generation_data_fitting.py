"""Generation data become options of a request, and every setting that is not used as it is is listed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bot.front.recipes.options import Asked, parse
from bot.generation_data import Difference, GenerationData, Tool, fit, read_picture
from bot.generation_data.data import SecondPassData
from bot.generation_data.sampler_names import Named, named_sampler
from sdjax_engine.images import encode_png
from sdjax_engine.request import Lora, Offer, Request, Sampler, SecondPass

OFFER = Offer(
    model="Dream 8",
    sizes=((512, 512), (512, 768)),
    num_inference_steps=20,
    guidance_scale=7.0,
    sampler=Sampler.DDIM,
    max_steps=50,
    most_skipped=3,
    loras=("Ink", "fog"),
    samplers=(
        Sampler.DDIM,
        Sampler.EULER,
        Sampler.EULER_ANCESTRAL,
        Sampler.DPMPP_2M,
        Sampler.DPMPP_2M_KARRAS,
    ),
)
OTHER = replace(OFFER, model="demo", sizes=((64, 64),))
PLAIN = GenerationData(tool=Tool.A1111, prompt="a bird", seed=5)


@pytest.mark.parametrize(
    ("name", "schedule", "expected"),
    [
        ("Euler a", "", Sampler.EULER_ANCESTRAL),
        ("Euler", "", Sampler.EULER),
        ("DPM++ 2M Karras", "", Sampler.DPMPP_2M_KARRAS),
        ("DPM++ 2M", "Karras", Sampler.DPMPP_2M_KARRAS),
        ("DPM++ 2M", "Automatic", Sampler.DPMPP_2M_KARRAS),
        ("DPM++ 2M", "", Sampler.DPMPP_2M),
        ("DPM++ 2M SDE Karras", "", Sampler.DPMPP_2M_SDE_KARRAS),
        ("DPM++ SDE", "", Sampler.DPMPP_SDE),
        ("PLMS", "", Sampler.PNDM),
        ("UniPC", "", Sampler.UNIPC),
        ("dpmpp_2m", "karras", Sampler.DPMPP_2M_KARRAS),
        ("dpmpp_2m", "normal", Sampler.DPMPP_2M),
        ("dpmpp_2m_sde_gpu", "karras", Sampler.DPMPP_2M_SDE_KARRAS),
        ("euler_ancestral", "normal", Sampler.EULER_ANCESTRAL),
        ("uni_pc_bh2", "normal", Sampler.UNIPC),
        ("dpmpp_2m_k", "", Sampler.DPMPP_2M_KARRAS),
        ("k_euler_a", "", Sampler.EULER_ANCESTRAL),
        ("k_dpmpp_2m", "", Sampler.DPMPP_2M),
        *((sampler.value, "", sampler) for sampler in Sampler),
    ],
)
def test_sampler_of_another_tool_is_known(name: str, schedule: str, expected: Sampler) -> None:
    assert named_sampler(name, schedule) == Named(sampler=expected)


@pytest.mark.parametrize(
    ("name", "schedule", "sampler"),
    [
        ("Euler Karras", "", Sampler.EULER),
        ("euler", "karras", Sampler.EULER),
        ("euler_k", "", Sampler.EULER),
        ("DPM++ SDE Karras", "", Sampler.DPMPP_SDE),
        ("DPM++ 2M", "Exponential", Sampler.DPMPP_2M),
        ("euler", "beta", Sampler.EULER),
    ],
)
def test_unknown_schedule_is_not_exact(name: str, schedule: str, sampler: Sampler) -> None:
    assert named_sampler(name, schedule) == Named(sampler=sampler, exact=False)


@pytest.mark.parametrize(
    "name", ["Restart", "LMS", "dpm_adaptive", "", "+", "k_", "DPM++ 2M SDE Heun Karras"]
)
def test_unknown_sampler_is_none(name: str) -> None:
    assert named_sampler(name) is None


SAMPLES: list[tuple[dict[str, Any], dict[str, Any], list[Difference]]] = [
    ({}, {"prompt": "a bird", "seed": 5}, []),
    ({"model": "dream_8"}, {"model": "Dream 8"}, []),
    ({"model": "x"}, {}, [Difference(setting="model", value="x", instead="Dream 8")]),
    ({"model_hash": "abc"}, {}, [Difference(setting="model", value="abc", instead="Dream 8")]),
    ({"model": "DEMO", "width": 64, "height": 64}, {"model": "demo", "size": "64x64"}, []),
    ({"width": 512, "height": 768}, {"size": "512x768"}, []),
    (
        {"width": 832, "height": 1216},
        {"size": "512x768"},
        [Difference(setting="size", value="832x1216", instead="512x768")],
    ),
    ({"steps": 90}, {"steps": 50}, [Difference(setting="steps", value="90", instead="50")]),
    ({"steps": 0}, {"steps": 1}, [Difference(setting="steps", value="0", instead="1")]),
    ({"guidance": 99.0}, {}, [Difference(setting="guidance", value="99")]),
    ({"seed": 2**40}, {}, [Difference(setting="seed", value=str(2**40))]),
    ({"seed": -1}, {}, [Difference(setting="seed", value="-1")]),
    ({"sampler": "Euler a"}, {"sampler": "euler_ancestral"}, []),
    ({"sampler": "LMS"}, {}, [Difference(setting="sampler", value="LMS", instead="DDIM")]),
    ({"sampler": "Heun"}, {}, [Difference(setting="sampler", value="Heun", instead="DDIM")]),
    (
        {"sampler": "euler", "schedule": "karras"},
        {"sampler": "euler"},
        [Difference(setting="sampler", value="euler karras", instead="Euler")],
    ),
    (
        {
            "loras": (
                Lora(name="ink", weight=0.8),
                Lora(name="Fog"),
                Lora(name="sea"),
                Lora(name="ink", weight=9),
            )
        },
        {"lora": "Ink:0.8, fog"},
        [Difference(setting="lora", value="sea:1"), Difference(setting="lora", value="ink:9")],
    ),
    ({"started": True, "strength": 0.6}, {}, [Difference(setting="image", value="0.6")]),
    ({"clip_skip": 1}, {}, []),
    ({"clip_skip": 2}, {"clip_skip": 2}, []),
    ({"clip_skip": 5}, {}, [Difference(setting="clip_skip", value="5")]),
    ({"unread": ("ENSD: 31337",)}, {}, [Difference(setting="other", value="ENSD: 31337")]),
    (
        {"prompt": "a" * 2001},
        {"prompt": "a" * 2000},
        [Difference(setting="prompt", value="2001", instead="2000")],
    ),
]


@pytest.mark.parametrize(("settings", "options", "differences"), SAMPLES)
def test_setting_is_used_or_listed(
    settings: dict[str, Any], options: dict[str, Any], differences: list[Difference]
) -> None:
    fitted = fit(replace(PLAIN, **settings), (OFFER, OTHER))
    assert list(fitted.differences) == differences
    expected = {"prompt": "a bird", "seed": 5} if "seed" not in settings else {"prompt": "a bird"}
    assert fitted.options == {**expected, **options}
    parse(Asked(**fitted.options), (OFFER, OTHER))


def test_the_skipped_layers_of_the_model_are_no_difference() -> None:
    skipping = replace(OFFER, clip_skip=1)
    assert "clip_skip" not in fit(replace(PLAIN, clip_skip=2), (skipping,)).options
    assert fit(replace(PLAIN, clip_skip=1), (skipping,)).options["clip_skip"] == 1
    [difference] = fit(replace(PLAIN, clip_skip=2), (replace(OFFER, most_skipped=0),)).differences
    assert difference == Difference(setting="clip_skip", value="2")


@pytest.mark.parametrize(("written", "taken"), [(1, None), (2, None), (3, 2)])
def test_the_layer_that_sdxl_takes_anyway_is_not_skipped(written: int, taken: int | None) -> None:
    fitted = fit(replace(PLAIN, clip_skip=written), (replace(OFFER, usual_layer=2),))
    assert fitted.options.get("clip_skip") == taken
    assert fitted.differences == ()


@pytest.mark.parametrize("usual", [1, 2])
@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_own_picture_gives_the_same_request_again(skipped: int, own: int, usual: int) -> None:
    request = Request(
        prompt="a bird, (dawn:1.2)",
        negative_prompt="frame",
        seed=2**32 - 1,
        num_inference_steps=33,
        guidance_scale=7.123456789,
        sampler=Sampler.DPMPP_2M_KARRAS,
        width=512,
        height=768,
        model="Dream 8",
        loras=(Lora(name="Ink", weight=0.1234567891), Lora(name="fog")),
        clip_skip=skipped,
    )
    offers = (OTHER, replace(OFFER, clip_skip=own, usual_layer=usual))
    fitted = fit(read_picture(encode_png(np.zeros((8, 8, 3), np.uint8), request)), offers)
    assert fitted.differences == ()
    assert parse(Asked(**fitted.options), offers).request(0) == request


def test_the_strength_of_a_second_pass_keeps_its_digits() -> None:
    offer = replace(OFFER, sizes=((512, 512), (1024, 1024)))
    second = SecondPassData(factor=2.0, strength=1 / 3, steps=15)
    recipe = parse(Asked(**fit(replace(PLAIN, second_pass=second), [offer]).options), [offer])
    assert recipe.second_pass == SecondPass(width=1024, height=1024, strength=1 / 3, num_inference_steps=15)
