"""Impossible offers are refused on creation, and requests beyond an offer by name."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from engines import TINY, like

from sdjax_engine.config import ModelSpec
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import MAX_STEPS, ControlType, Lora, Request, Variation
from sdjax_engine.startup.registry import lanes

INK = Lora(name="ink")
WITH_LORAS = dataclasses.replace(TINY, loras=("ink", "fog"))
WITH_CONTROL = dataclasses.replace(TINY, controlnets=("canny", "depth"))
REQUEST = Request(
    prompt="a boat",
    seed=1,
    num_inference_steps=TINY.num_inference_steps,
    guidance_scale=TINY.guidance_scale,
    sampler=TINY.sampler,
    width=TINY.sizes[0][0],
    height=TINY.sizes[0][1],
    model=TINY.model,
)


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": ()},
        {"num_inference_steps": 0},
        {"num_inference_steps": 20, "max_steps": 10},
        {"max_steps": MAX_STEPS + 1},
        {"guidance_interval": (0.6, 0.6)},
        {"references": 5},
    ],
)
def test_an_impossible_offer_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^tiny "):
        dataclasses.replace(TINY, **changes)


def test_a_larger_size_of_the_same_shape_has_more_pixels_and_no_shorter_side() -> None:
    sizes = ((768, 520), (776, 512), (1552, 1040), (760, 528), (1536, 1040), (768, 528), (768, 768))
    offer = dataclasses.replace(TINY, sizes=sizes)
    assert offer.larger_sizes((768, 520)) == [(768, 528), (1536, 1040), (1552, 1040)]
    assert offer.larger_sizes((768, 512)) == [(776, 512), (768, 520), (1536, 1040), (1552, 1040)]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"strength": -0.1}, "strength"),
        ({"strength": 1.01}, "strength"),
        ({"strength": float("nan")}, "strength"),
        ({"guidance_interval": (0.5, 1.2)}, "guidance_interval"),
        ({"guidance_interval": (0.5, 0.4)}, "guidance_interval"),
        ({"guidance_interval": (float("nan"), 1.0)}, "guidance_interval"),
        ({"mask_image": b"mask"}, "mask_alone"),
        ({"loras": (INK, Lora(name="rust"))}, "lora"),
        ({"loras": (dataclasses.replace(INK, weight=4.5),)}, "lora_weight"),
        ({"loras": (dataclasses.replace(INK, weight=float("inf")),)}, "lora_weight"),
    ],
)
def test_start_pictures_and_loras_are_checked(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        WITH_LORAS.check(dataclasses.replace(REQUEST, **changes))
    assert caught.value.problem == problem


@pytest.mark.parametrize("wrong", ["x", None, [1], 1.5j, float("nan"), 10**400])
def test_what_is_no_number_is_refused_like_a_number_that_is_too_large(wrong: Any) -> None:
    offer = dataclasses.replace(
        TINY, controlnets=("canny",), image_prompts=True, loras=("a",), most_skipped=1
    )
    numbered: dict[str, dict[str, Any]] = {
        "steps": {"num_inference_steps": wrong},
        "guidance": {"guidance_scale": wrong},
        "seed": {"seed": wrong},
        "strength": {"strength": wrong},
        "clip_skip": {"clip_skip": wrong},
        "lora_weight": {"loras": (Lora(name="a", weight=wrong),)},
        "variation_strength": {"variations": (Variation(seed=1, strength=wrong),)},
        "control_strength": {"control_image": b"", "control_strength": wrong},
        "image_prompt_strength": {"image_prompt": b"", "image_prompt_strength": wrong},
    }
    for problem, changes in numbered.items():
        with pytest.raises(InvalidRequest) as refused:
            offer.check(like(**changes))
        assert refused.value.problem == problem
        assert str(refused.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"num_inference_steps": 1.5}, "steps"),
        ({"seed": 1.5}, "seed"),
        ({"sampler": "x"}, "unsuited_sampler"),
        ({"control_image": b"", "controlnet": None}, "controlnet"),
    ],
)
def test_values_of_another_kind_are_refused(changes: dict[str, Any], problem: str) -> None:
    kinds = ((ControlType.EDGES, "canny"),)
    offer = dataclasses.replace(TINY, controlnets=("canny",), control_types=kinds, samplers=(TINY.sampler,))
    with pytest.raises(InvalidRequest) as refused:
        offer.check(like(**changes))
    assert refused.value.problem == problem


def test_a_lora_of_a_model_that_has_none_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^tiny has no LoRAs"):
        TINY.check(dataclasses.replace(REQUEST, loras=(INK,)))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"controlnet": "pose"}, "controlnet"),
        ({"control_strength": 2.1}, "control_strength"),
        ({"control_strength": float("nan")}, "control_strength"),
        ({"control_interval": (0.4, 0.4)}, "control_interval"),
        ({"control_interval": (0.4,)}, "control_interval"),
        ({"control_interval": (0.2, 0.4, 0.6)}, "control_interval"),
        ({"control_interval": ("a", None)}, "control_interval"),
        ({"control_interval": 0.5}, "control_interval"),
        ({"guidance_interval": ()}, "guidance_interval"),
        ({"control_type": "smell"}, "control_type"),
        ({"control_type": ["edges"]}, "control_type"),
        ({"control_type": None}, "control_type"),
    ],
)
def test_a_control_picture_is_checked(changes: dict[str, object], problem: str) -> None:
    controlled = dataclasses.replace(REQUEST, control_image=b"picture")
    assert WITH_CONTROL.check(controlled) is controlled
    with pytest.raises(InvalidRequest) as caught:
        WITH_CONTROL.check(dataclasses.replace(controlled, **changes))
    assert caught.value.problem == problem
    with pytest.raises(InvalidRequest, match="tiny has no ControlNets"):
        TINY.check(controlled)


def test_each_network_takes_the_types_that_are_offered_with_it() -> None:
    types = ((ControlType.EDGES, "canny"), (ControlType.LINES, "canny"), (ControlType.DEPTH, "depth"))
    offer = dataclasses.replace(WITH_CONTROL, control_types=types)
    assert [offer.controlnet_of(kind) for kind, _ in types] == ["canny", "canny", "depth"]
    asked = dataclasses.replace(REQUEST, controlnet="canny", control_type=ControlType.LINES)  # no bytes yet
    assert offer.check(asked) is asked
    with pytest.raises(
        InvalidRequest, match=r"cannot use a control picture of the type depth: .* edges, lines"
    ):
        offer.check(dataclasses.replace(asked, control_type=ControlType.DEPTH))
    with pytest.raises(InvalidRequest, match="of the type pose: choose from edges, lines, depth"):
        offer.check(
            dataclasses.replace(asked, controlnet="", control_type=ControlType.POSE, control_image=b"x")
        )
    with pytest.raises(InvalidRequest, match="tiny has no ControlNets"):
        TINY.check(asked)
    with pytest.raises(ValueError, match=r"control types of \['pose'\]"):
        dataclasses.replace(offer, control_types=((ControlType.POSE, "pose"),))


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_an_image_prompt_is_checked(strength: float) -> None:
    prompted = dataclasses.replace(REQUEST, image_prompt=b"picture", image_prompt_strength=0.6)
    takes = dataclasses.replace(TINY, image_prompts=True)
    assert takes.check(prompted) is prompted
    with pytest.raises(InvalidRequest, match="strength of the image prompt"):
        takes.check(dataclasses.replace(prompted, image_prompt_strength=strength))
    with pytest.raises(InvalidRequest, match="tiny takes no picture as a prompt"):
        TINY.check(prompted)


def test_a_model_has_the_networks_that_it_offers() -> None:
    with pytest.raises(ValueError, match="tiny offers image prompts if, and only if, it has a file for them"):
        ModelSpec(offer=TINY, source="folder", image_prompt="adapter.safetensors")
    with pytest.raises(ValueError, match=r"offers the ControlNets \['canny', 'depth'\], but has \['depth'\]"):
        ModelSpec(offer=WITH_CONTROL, source="folder", controlnets={"depth": "net"})


def test_reference_pictures_are_counted_and_each_number_has_lanes_of_its_own() -> None:
    offer = dataclasses.replace(TINY, references=2)
    two = dataclasses.replace(REQUEST, references=(b"fox", b"hat"))
    assert offer.check(two) is two
    assert offer.reaches(two.lane)
    assert two.lane in lanes(offer)
    assert str(two.lane) == f"{REQUEST.lane}:2 references"
    with pytest.raises(InvalidRequest, match=r"^3 reference pictures are not .* at most 2"):
        offer.check(dataclasses.replace(two, references=(b"fox", b"hat", b"sea")))
    with pytest.raises(InvalidRequest, match=r"^tiny takes no reference pictures"):
        TINY.check(two)
    assert not TINY.reaches(two.lane)
    assert len(lanes(offer)) == 3 * len(lanes(TINY))
