"""Programs that decode several pictures of a device in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from checkpoints import make_tiny_checkpoint, make_tiny_classifier
from engines import PLAIN, SMALLEST, TINY, like

from sdjax_engine.compiling.compiler import Compiler, Program
from sdjax_engine.config import Dtype, EngineConfig, ModelSpec
from sdjax_engine.lane.decoding import DecodingQueue, Picture
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.lane.programs import compile_decode
from sdjax_engine.lane.seat_count import open_lane
from sdjax_engine.lane.shapes import LaneShapes
from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane
from sdjax_engine.startup.picture_classifiers import add_picture_classifiers
from sdjax_engine.weights import load_checkpoint

SEATS = 2  # of each of two devices
SIZES = (1, 2, 4)
LATENTS = np.random.default_rng(1).standard_normal((4, 1, 8, 8, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> LoadedModel:
    """A model with a safety checker and a picture classifier."""
    folder = tmp_path_factory.mktemp("judged")
    checkpoint = make_tiny_checkpoint(folder / "tiny", **SMALLEST, safety_checker={})
    spec = ModelSpec(
        offer=TINY,
        source=str(checkpoint),
        picture_classifier=str(make_tiny_classifier(folder / "classifier")),
        picture_labels=frozenset({"drawing", "bare", "gore"}),
    )
    residency, put = Residency(compiler.mesh), partial(devices.replicate, mesh=compiler.mesh)
    loaded = load_checkpoint(str(checkpoint), safety_checker=True, put=put)
    model = LoadedModel(TINY, loaded, compiler, residency=residency)
    config = EngineConfig(models=(spec,), dtype=Dtype.FLOAT32)
    add_picture_classifiers(config, {TINY.model: model}, compiler, residency)
    return model


@pytest.fixture(scope="module")
def decoders(judged: LoadedModel, compiler: Compiler) -> dict[int, Program]:
    shapes = LaneShapes(lane=PLAIN.lane, model=judged, seats_per_device=max(SIZES))
    return {size: compile_decode(shapes, compiler, pictures=size) for size in SIZES}


def decoded(
    model: LoadedModel, decoders: Mapping[int, Program], latents: Sequence[npt.NDArray[np.float32]]
) -> list[Picture]:
    """Decode the latents in one call, by the decoder for their number."""
    return DecodingQueue(model=model).queue(decoders[len(latents)], {0: latents})[0]


def pixels_of(picture: Picture) -> npt.NDArray[np.int64]:
    pixels = picture.fetch()
    assert pixels is not None
    return pixels.astype(np.int64)


def test_a_picture_has_its_bits_in_its_place_in_any_company_and_rounds_otherwise_in_others(
    judged: LoadedModel, decoders: dict[int, Program]
) -> None:
    [alone] = decoded(judged, decoders, LATENTS[:1])
    expected, verdicts = pixels_of(alone), alone.fetch_verdicts()
    assert verdicts.safety is not None
    assert verdicts.classified is not None
    for size in SIZES[1:]:
        itself = decoded(judged, decoders, [LATENTS[0]] * size)
        for place in range(size):
            company = [LATENTS[1 + other] for other in range(size - 1)]
            picture = decoded(judged, decoders, [*company[:place], LATENTS[0], *company[place:]])[place]
            np.testing.assert_array_equal(pixels_of(picture), pixels_of(itself[place]))
            np.testing.assert_array_equal(picture.fetch_latents(), LATENTS[0, 0])
            np.testing.assert_allclose(pixels_of(picture), expected, rtol=0, atol=1)
            found = picture.fetch_verdicts()
            assert found == itself[place].fetch_verdicts()
            assert found.safety is not None
            assert found.classified is not None
            np.testing.assert_allclose(found.safety.concepts, verdicts.safety.concepts, atol=1e-3)
            np.testing.assert_allclose(
                found.classified.probabilities, verdicts.classified.probabilities, atol=1e-3
            )


def test_a_picture_that_is_not_finite_spoils_no_other_of_its_call(
    judged: LoadedModel, decoders: dict[int, Program]
) -> None:
    whole = decoded(judged, decoders, LATENTS[:2])
    broken = decoded(judged, decoders, [np.full_like(LATENTS[0], np.nan), LATENTS[1]])
    assert broken[0].fetch() is None
    assert np.isnan(broken[0].fetch_latents()).all()
    np.testing.assert_array_equal(pixels_of(broken[1]), pixels_of(whole[1]))
    assert broken[1].fetch_verdicts() == whole[1].fetch_verdicts()


def lane_of(model: LoadedModel, compiler: Compiler, seats: int) -> DeviceLane:
    return DeviceLane(PLAIN.lane, model, seats_per_device=seats, compiler=compiler, start_pictures=False)


def painted(
    lane: DeviceLane, model: LoadedModel, *seats: int, programs: str | None = None
) -> dict[int, Picture]:
    """A picture from each seat, all finished by one run; that in seat 1 is painted with `programs`."""
    told = {1: None if programs is None else [programs]}
    lane.reset()
    lane.bring()
    lane.admit(
        {
            seat: model.prepare(like(prompt=f"a star {seat}", seed=seat), programs=told.get(seat))
            for seat in seats
        }
    )
    lane.denoise(dict.fromkeys(seats, (0, PLAIN.num_inference_steps)))
    return lane.decode(seats)


@pytest.fixture(scope="module")
def lane(model: LoadedModel, compiler: Compiler, device_lanes: dict[Lane, DeviceLane]) -> DeviceLane:
    """A lane of its own with the programs of the others, and a decoder of two pictures."""
    assert device_lanes, "its programs are there"
    opened = lane_of(model, compiler, SEATS)
    assert not opened.decodes_together
    opened.prepare_decoders()
    assert opened.decodes_together
    return opened


def test_a_picture_that_is_painted_again_has_the_place_in_the_decoder_that_it_had(
    lane: DeviceLane, model: LoadedModel, device_lanes: dict[Lane, DeviceLane]
) -> None:
    """First beside another; then alone, and beside two others, whose decoders it does not change."""
    first = painted(lane, model, 0, 1, 3)
    assert {seat: picture.programs for seat, picture in first.items()} == {
        0: "6x4- d1/2",
        1: "6x4- d2/2",
        3: "6x4-",
    }
    for seats in ((1,), (0, 1, 3)):
        again = painted(lane, model, *seats, programs=first[1].programs)
        assert again[1].programs == first[1].programs
        np.testing.assert_array_equal(pixels_of(again[1]), pixels_of(first[1]))
    assert {again[seat].programs for seat in (0, 3)} == {"6x4-"}
    one_by_one = painted(device_lanes[PLAIN.lane], model, 0, 1, programs=first[1].programs)
    assert one_by_one[1].programs == "6x4-", "a lane that is without the decoder says so"
    np.testing.assert_allclose(pixels_of(one_by_one[1]), pixels_of(first[1]), rtol=0, atol=1)


def test_decoding_asks_no_program_for_its_memory(
    lane: DeviceLane, model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XLA takes milliseconds for its first answer, and the devices would wait for their next run."""
    painted(lane, model, 0, 1)
    asked: list[Program] = []
    monkeypatch.setattr("sdjax_engine.lane.programs.working_memory", asked.append)
    assert [picture.programs for picture in lane.decode([0, 1]).values()] == ["6x4- d1/2", "6x4- d2/2"]
    assert asked == []


def test_a_larger_decoder_takes_only_memory_that_is_left_and_is_given_up_before_seats(
    checkpoint: Path, compiler: Compiler, device_lanes: dict[Lane, DeviceLane]
) -> None:
    assert device_lanes, "its programs are there"
    said: list[str] = []
    telling = Compiler(mesh=compiler.mesh, report=said.append, executables=compiler.executables)
    loaded = load_checkpoint(str(checkpoint), put=partial(devices.replicate, mesh=compiler.mesh))

    def opened(budget: int | None) -> tuple[DeviceLane, LoadedModel]:
        model = LoadedModel(TINY, loaded, telling, residency=Residency(compiler.mesh, budget))
        lane = open_lane(partial(lane_of, model, telling), PLAIN.lane, model.residency, SEATS)
        lane.prepare_decoders()
        return lane, model

    roomy, with_room = opened(None)
    enough = with_room.residency.taken
    narrow, _ = opened(enough - 1)
    assert said[-1] == f"{PLAIN.lane} has no decoder of 2 pictures: no memory is left"
    lane, model = opened(enough)
    assert [each.decodes_together for each in (roomy, narrow, lane)] == [True, False, True]
    assert {each.seats_per_device for each in (roomy, narrow, lane)} == {SEATS}
    assert lane.halve()
    lane.prepare_decoders()
    assert (lane.seats_per_device, lane.decodes_together, lane.lacks_decoders) == (SEATS, False, False)
    assert {picture.programs for picture in painted(lane, model, 0, 1).values()} == {"6x4-"}
    assert lane.halve()
    assert lane.seats_per_device == SEATS // 2
