"""Image prompts in the engine: pictures with them share lanes with others and are as if alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from checkpoints import UNET, make_tiny_controlnet, make_tiny_image_prompt
from compilations import counted_compilations
from engines import MASK, PLAIN, SMALLEST, START, TINY, file_of, like

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.model.loaded import DENOISER
from sdjax_engine.request import ControlType, Request
from sdjax_engine.startup.model_check import check_model

DEADLINE = 120
PICTURE = file_of(np.kron(START, np.ones((2, 3, 1))))  # of another shape and size
PROMPTED = like(image_prompt=PICTURE)
CONTROLLED = like(control_image=PICTURE, control_type=ControlType.PICTURE)
MIXED = (
    PLAIN,
    PROMPTED,
    like(PROMPTED, image_prompt_strength=0.6, num_inference_steps=9),
    like(PROMPTED, image_prompt_strength=0.0),
    like(PROMPTED, image_prompt=file_of(255 - START), seed=8),
    like(PROMPTED, init_image=file_of(START), mask_image=file_of(MASK), strength=0.6),
    like(PROMPTED, control_image=PICTURE, control_interval=(0.3, 0.7), control_type=ControlType.PICTURE),
    CONTROLLED,
)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_image_prompt(tmp_path_factory.mktemp("adapter"), unet=UNET | SMALLEST["unet"], plus=True)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_controlnet(tmp_path_factory.mktemp("net"), unet=SMALLEST["unet"])


def config(checkpoint: Path, adapter: Path, net: Path | None = None, **changes: object) -> EngineConfig:
    nets = {} if net is None else {"canny": str(net)}
    offer = dataclasses.replace(TINY, controlnets=tuple(nets), image_prompts=True)
    spec = ModelSpec(offer=offer, source=str(checkpoint), controlnets=nets, image_prompt=str(adapter))
    values = {"cpu_devices": 2, "seats_per_device": 2, "lanes": (PLAIN.lane,)} | changes
    return EngineConfig(models=(spec,), **values)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=[False, True], ids=["one program", "fitted programs"])
def engine(request: pytest.FixtureRequest, checkpoint: Path, adapter: Path, net: Path) -> Iterator[Engine]:
    settings = config(checkpoint, adapter, net, fitted_programs=request.param)
    with Engine.open(settings, report=str) as engine:
        engine.wait_until_ready()
        yield engine


def paint(engine: Engine, *requests: Request) -> list[npt.NDArray[np.int64]]:
    futures = [engine.submit(request) for request in requests]
    return [future.result(DEADLINE).pixels.astype(np.int64) for future in futures]


def test_a_picture_is_the_same_alone_and_beside_others_and_nothing_is_compiled_for_it(engine: Engine) -> None:
    with counted_compilations() as compiled:
        alone = [paint(engine, request)[0] for request in MIXED]
        company = paint(engine, *MIXED)
    assert compiled == []
    fitted = engine._thread.queues[PLAIN.lane].device.fitted  # type: ignore[attr-defined]
    np.testing.assert_allclose(company, alone, rtol=0, atol=1 if fitted else 0)
    np.testing.assert_array_equal(alone[3], alone[0])
    others = [picture.tobytes() for index, picture in enumerate(alone) if index != 3]
    assert len(set(others)) == len(others)


def test_the_unet_and_one_controlnet_are_all_that_the_devices_must_hold_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [paint(engine, request)[0] for request in MIXED]
    assert engine._registry is not None
    residency, parameters = engine._registry.residency, engine._models[PLAIN.model]._parameters
    denoiser, canny = parameters.of((DENOISER, "ControlNet canny"))
    assert parameters.at_once == denoiser.size + canny.size
    monkeypatch.setattr(residency._ledger, "budget", residency.taken - parameters.size + parameters.at_once)
    with counted_compilations() as compiled:
        narrow = [paint(engine, request)[0] for request in MIXED]
    assert compiled == []
    np.testing.assert_array_equal(narrow, expected)
    assert not residency.has(PLAIN.model)


def test_pictures_without_an_image_prompt_are_those_of_a_model_without(
    checkpoint: Path, adapter: Path, engine: Engine
) -> None:
    spec = ModelSpec(offer=TINY, source=str(checkpoint))
    without = EngineConfig(models=(spec,), cpu_devices=2, seats_per_device=2, lanes=(PLAIN.lane,))
    with Engine.open(without, report=str) as other:
        [expected] = paint(other, PLAIN)
        with pytest.raises(InvalidRequest, match="tiny takes no picture as a prompt"):
            other.submit(PROMPTED)
    fitted = engine._thread.queues[PLAIN.lane].device.fitted  # type: ignore[attr-defined]
    np.testing.assert_allclose(paint(engine, PLAIN, PROMPTED)[0], expected, rtol=0, atol=1 if fitted else 0)


def test_a_picture_is_encoded_once_however_many_images_it_prompts(engine: Engine) -> None:
    model = engine._thread.queues[PLAIN.lane].device._model  # type: ignore[attr-defined]
    looks, calls = model.looks, []
    look = looks._encode
    looks.clear()
    looks._encode = lambda *arguments: (calls.append(len(arguments[0])), look(*arguments))[1]
    try:
        paint(engine, *[like(PROMPTED, seed=seed) for seed in range(6)])
    finally:
        looks._encode = look
    assert sum(calls) == 2  # the picture, and no picture for the negative prompts


def test_a_seat_keeps_nothing_of_an_earlier_image_prompt(engine: Engine) -> None:
    before = paint(engine, PLAIN, *MIXED)[0]
    np.testing.assert_array_equal(paint(engine, PLAIN)[0], before)
    other = like(PROMPTED, image_prompt=file_of(255 - START))
    [first] = paint(engine, other)
    np.testing.assert_array_equal(paint(engine, *[PROMPTED] * 4, other)[4], first)


def test_a_picture_that_cannot_be_read_is_refused_by_what_it_is(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="image_prompt is not a picture that can be read"):
        engine.submit(like(PROMPTED, image_prompt=b"GIF89a")).result(DEADLINE)


def test_a_long_thin_picture_is_cropped_before_it_is_enlarged(engine: Engine) -> None:
    line = file_of(np.full((1, 60_000, 3), 200))
    short = file_of(np.full((9, 9, 3), 200))
    wide, square = paint(engine, like(PROMPTED, image_prompt=line), like(PROMPTED, image_prompt=short))
    np.testing.assert_array_equal(wide, square)


def test_an_adapter_for_another_kind_of_model_is_refused_at_the_start(
    checkpoint: Path, tmp_path: Path
) -> None:
    wide = UNET | {"cross_attention_dim": 2048}
    file = make_tiny_image_prompt(tmp_path, unet=wide)
    with pytest.raises(UnreadableCheckpoint, match="is an IP-Adapter for SDXL, and this model is one for"):
        Engine.open(config(checkpoint, file), report=str)


@pytest.mark.parametrize(
    "encoder", [None, "some/where"], ids=["an encoder beside it", "an encoder on the hub"]
)
def test_an_adapter_for_another_kind_of_model_is_refused_by_the_check_of_a_configuration(
    encoder: str | None, checkpoint: Path, tmp_path: Path
) -> None:
    large = make_tiny_image_prompt(tmp_path, unet=UNET | {"cross_attention_dim": 48})
    spec = dataclasses.replace(config(checkpoint, large).models[0], image_encoder=encoder)
    with pytest.raises(UnreadableCheckpoint, match="is an IP-Adapter for"):
        check_model(spec, dtype="float32", previews=False)


def test_a_second_start_with_image_prompts_traces_and_compiles_nothing(
    checkpoint: Path, adapter: Path, tmp_path: Path
) -> None:
    how = {"cache_dir": tmp_path / "cache", "cpu_devices": 1, "seats_per_device": 1, "start_pictures": False}
    with Engine.open(config(checkpoint, adapter, **how), report=str) as engine:
        first = paint(engine, PROMPTED)
    with (
        counted_compilations() as made,
        Engine.open(config(checkpoint, adapter, **how), report=str) as engine,
    ):
        again = paint(engine, PROMPTED)
    assert made == []
    np.testing.assert_array_equal(again, first)
