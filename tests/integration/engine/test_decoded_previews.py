"""Previews that a tiny autoencoder decodes: their pixels, and their failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import make_tiny_decoder
from diffusers import AutoencoderTiny
from diffusers.image_processor import VaeImageProcessor
from engines import PLAIN, TINY, VARIED, fingerprint, like
from jax.sharding import Mesh

from sdjax_engine.compiling.compiler import Compiler, working_memory
from sdjax_engine.config import Dtype, EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.family import Latents
from sdjax_engine.lane import programs
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.lane.seat_count import open_lane
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Image, Progress, Request
from sdjax_engine.startup.companions import add_preview_decoders
from sdjax_engine.weights import Component, load_checkpoint
from sdjax_engine.weights.companions import load_preview_decoder

DEADLINE = 120.0
STEPS = 12
SEATS = 2
GUIDED = tuple(request for request in VARIED if request.lane == PLAIN.lane)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_decoder(tmp_path_factory.mktemp("decoder"), scaling_factor=0.7)


@pytest.fixture(scope="module")
def reported() -> list[str]:
    return []


def config_of(checkpoint: Path, decoder: str, cache_dir: Path | None) -> EngineConfig:
    return EngineConfig(
        models=(ModelSpec(offer=TINY, source=str(checkpoint), preview_decoder=decoder),),
        cpu_devices=2,
        seats_per_device=SEATS,
        cache_dir=cache_dir,
        lanes=(PLAIN.lane,),
        start_pictures=False,
        preview_seconds=1e-6,
        preview_share=1e6,
    )


@pytest.fixture(scope="module")
def previewing(checkpoint: Path, folder: Path, cache_dir: Path, reported: list[str]) -> Iterator[Engine]:
    with Engine.open(config_of(checkpoint, str(folder), cache_dir), report=reported.append) as engine:
        yield engine


def paint(
    engine: Engine, *requests: Request, previews: bool = True
) -> tuple[list[Image], list[list[Progress]]]:
    """Paint the requests together; return the images and the progress with previews of each."""
    told: list[list[Progress]] = [[] for _ in requests]
    futures = [
        engine.submit(request, on_progress=mine.append, previews=previews)
        for request, mine in zip(requests, told, strict=True)
    ]
    images = [future.result(DEADLINE) for future in futures]
    return images, [[progress for progress in mine if progress.preview is not None] for mine in told]


def test_the_start_says_which_decoder_makes_the_previews(
    previewing: Engine, folder: Path, reported: list[str]
) -> None:
    assert previewing.ready_lanes
    assert f"previews of tiny are decoded by {folder}" in reported


def test_the_first_picture_has_previews_which_the_references_decoder_makes_of_the_estimates(
    previewing: Engine, folder: Path, model: LoadedModel, compiler: Compiler
) -> None:
    request = like(num_inference_steps=STEPS, seed=11)
    _, [told] = paint(previewing, request)
    assert told, "no preview came"
    lane = lane_of(model, compiler, SEATS)
    prepared = model.prepare(request)
    for progress in told:
        assert 0 < progress.step < STEPS
        lane.reset()
        lane.admit({0: prepared})
        lane.denoise({0: (0, progress.step)})
        of_x, of_kept = prepared.estimates[progress.step - 1]
        latents = lane.estimate({0: (float(of_x), float(of_kept))}).fetch()
        assert progress.preview is not None
        expected = reference_pixels(folder, latents[0])
        assert progress.preview.shape == expected.shape == (16, 16, 3)
        assert progress.preview.dtype == np.uint8
        assert np.abs(progress.preview.astype(int) - expected).max() <= 1


def reference_pixels(folder: Path, latents: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The pixels (h, w, 3) of latents in the UNet's space, as the reference's pipelines make them."""
    reference = AutoencoderTiny.from_pretrained(folder).eval()
    with torch.no_grad():
        scaled = (
            torch.from_numpy(latents.transpose(2, 0, 1)[None].copy()) / reference.config["scaling_factor"]
        )
        [picture] = VaeImageProcessor().postprocess(reference.decode(scaled).sample, output_type="pil")
    return np.asarray(picture, np.int64)


def test_previews_change_no_picture_in_any_company(previewing: Engine, cache_dir: Path) -> None:
    alone = [paint(previewing, request, previews=False) for request in GUIDED]
    together, told = paint(previewing, *GUIDED)
    assert [fingerprint(image) for [image], _ in alone] == [fingerprint(image) for image in together]
    assert not any(mine for _, [mine] in alone)
    assert any(told)
    assert not (cache_dir / "previews").exists(), "the map of colours is learnt although nobody needs it"


def test_a_decoder_of_another_model_is_refused_before_anything_starts(
    checkpoint: Path, tmp_path: Path
) -> None:
    wrong = make_tiny_decoder(tmp_path / "decoder", latent_channels=16)
    with pytest.raises(UnreadableCheckpoint) as caught:
        Engine.open(config_of(checkpoint, str(wrong), None), report=lambda _line: None)
    assert str(caught.value) == (
        f"preview_decoder of tiny: {wrong} decodes 16 latent channels to 2 times the size, and the model has "
        "4 and 2: name a decoder that was made for the model's autoencoder, or delete the key."
    )


def lane_of(model: LoadedModel, compiler: Compiler, seats: int) -> DeviceLane:
    return DeviceLane(
        *(PLAIN.lane, model), seats_per_device=seats, compiler=compiler, start_pictures=False, previews=True
    )


@pytest.fixture(scope="module")
def decoder(folder: Path, compiler: Compiler) -> Component:
    put = partial(devices.replicate, mesh=compiler.mesh)
    return load_preview_decoder(
        str(folder), latents=Latents(cell=2, channels=4, multiple=2), dtype="float32", put=put
    )


class Narrow(Residency):
    """Refuses a lane until its programs need less memory than at the first claim; records the claims."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__(mesh)
        self.claims: list[Need] = []

    def claim(self, owner: Hashable, need: Need, *, optional: bool = False) -> bool:
        if owner != PLAIN.lane:
            return super().claim(owner, need, optional=optional)
        self.claims.append(need)
        return len(self.claims) > 1 and super().claim(owner, need, optional=optional)


def test_a_lane_without_room_for_a_decoder_keeps_its_seats_and_says_so(
    checkpoint: Path, compiler: Compiler, decoder: Component
) -> None:
    lines: list[str] = []
    telling = Compiler(mesh=compiler.mesh, report=lines.append, executables=compiler.executables)
    put = partial(devices.replicate, mesh=compiler.mesh)
    narrow = Narrow(compiler.mesh)
    model = LoadedModel(TINY, load_checkpoint(str(checkpoint), put=put), telling, residency=narrow)
    model.preview_decoder = decoder
    lane = open_lane(partial(lane_of, model, telling), PLAIN.lane, narrow, SEATS)
    assert lane.seats_per_device == SEATS
    assert not lane.decodes_previews
    assert [need.held for need in narrow.claims] == [narrow.claims[0].held] * 2
    assert [line for line in lines if "coarse" in line] == [
        f"previews of {PLAIN.lane} are coarse: the devices have no room for a decoder"
    ]
    assert lane.halve()
    assert not lane.decodes_previews


def test_the_decoders_memory_is_claimed_with_the_programs(
    model: LoadedModel, compiler: Compiler, decoder: Component, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "preview_decoder", decoder)
    lane = lane_of(model, compiler, SEATS)
    program = lane._programs.previews
    assert program is not None
    assert lane.need.working >= working_memory(program.program) > 16 * 16 * 3 * SEATS


def test_a_decoder_without_room_for_its_parameters_is_left_out(
    checkpoint: Path, folder: Path, compiler: Compiler
) -> None:
    lines: list[str] = []
    telling = Compiler(mesh=compiler.mesh, report=lines.append)
    put = partial(devices.replicate, mesh=compiler.mesh)
    roomy = Residency(compiler.mesh)
    loaded = load_checkpoint(str(checkpoint), put=put)
    LoadedModel(TINY, loaded, telling, residency=roomy)
    for spare, decoded in ((10**6, True), (100, False)):
        narrow = Residency(compiler.mesh, roomy.taken + spare)
        model = LoadedModel(TINY, loaded, telling, residency=narrow)
        config = dataclasses.replace(config_of(checkpoint, str(folder), None), dtype=Dtype.FLOAT32)
        add_preview_decoders(config, {"tiny": model}, telling, narrow)
        assert (model.preview_decoder is not None) is decoded
    assert lines[-2] == f"previews of tiny are decoded by {folder}"
    assert lines[-1].startswith("previews of tiny are coarse: a device has no ")


def test_a_decoder_that_cannot_be_compiled_only_removes_the_previews(
    model: LoadedModel, compiler: Compiler, decoder: Component, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the compiler knows no such convolution")

    monkeypatch.setattr(programs, "compile_decoded_estimate", fail)
    monkeypatch.setattr(model, "preview_decoder", decoder)
    lines: list[str] = []
    telling = Compiler(mesh=compiler.mesh, report=lines.append, executables=compiler.executables)
    lane = lane_of(model, telling, SEATS)
    assert not lane.decodes_previews
    assert [line for line in lines if "without its decoder" in line] == [
        f"{PLAIN.lane} makes coarse previews without its decoder: the compiler knows no such convolution."
    ]
