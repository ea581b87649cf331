"""The ten steps of the guide "Stable Diffusion in JAX / Flax", on eight devices, with our import line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest
from checkpoints import make_tiny_controlnet
from engines import SMALLEST

SCRIPT = Path(__file__).with_name("guide_lines.py")
ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow


class Followed:
    """What the guide's lines left: what they said, and arrays by name."""

    def __init__(self, folder: Path, said: dict[str, Any]) -> None:
        self.folder = folder
        self.said = said

    def array(self, name: str) -> npt.NDArray[np.float32]:
        """The array saved under this name."""
        loaded: npt.NDArray[np.float32] = np.load(self.folder / f"{name}.npy")
        return loaded


@pytest.fixture(scope="module")
def guide(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    folder = tmp_path_factory.mktemp("guide")
    controlnet = make_tiny_controlnet(folder / "controlnet", unet=SMALLEST["unet"])
    finished = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), str(checkpoint), str(controlnet), str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return Followed(folder, json.loads(finished.stdout.splitlines()[-1]))


def test_step_1_counts_and_names_the_devices(guide: Followed) -> None:
    assert guide.said["devices"] == [8, "cpu"]


def test_step_2_paints_in_float32_and_in_bfloat16(guide: Followed) -> None:
    assert guide.said["dtypes"] == ["float32"]
    low = guide.said["two on each in bfloat16"]
    assert low["parameters"] == ["bfloat16"]
    assert low["pictures"][1] == "float32"
    assert low["finite"]
    assert low["varied"] > 0.05


def test_step_3_hands_over_the_parameters_apart_from_the_pipeline(guide: Followed) -> None:
    assert guide.said["parts"] == ["scheduler", "text_encoder", "unet", "vae"]


def test_step_4_makes_ids_of_77_tokens(guide: Followed) -> None:
    assert guide.said["ids"] == [[8, 77], "int32"]


def test_step_5_gives_every_device_the_parameters_and_one_prompt(guide: Followed) -> None:
    assert guide.said["sharded ids"] == [8, 1, 77]
    assert guide.said["replicated"] == [8]


def test_step_6_gives_every_device_another_picture_of_the_same_prompt_and_again_the_same(
    guide: Followed,
) -> None:
    first = guide.array("first")
    assert len({picture.tobytes() for picture in first}) == 8
    np.testing.assert_array_equal(guide.array("again"), first)


def test_step_7_paints_one_picture_on_each_device_and_compiles_once_for_all_steps_and_scales(
    guide: Followed,
) -> None:
    first = guide.array("first")
    assert (first.shape, first.dtype) == ((8, 1, 16, 16, 3), np.float32)
    assert first.min() >= 0
    assert first.max() <= 1
    assert first.std() > 0.05
    assert guide.said["compiled later"] == 0


def test_step_8_makes_pictures_and_a_grid_of_rows_by_columns(guide: Followed) -> None:
    first = guide.array("first")
    with PIL.Image.open(guide.folder / "picture.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), np.round(first[0, 0] * 255).astype(np.uint8))
    with PIL.Image.open(guide.folder / "grid.png") as grid:
        assert grid.size == (4 * 16, 2 * 16)
        last = np.asarray(grid)[16:, 48:]
    np.testing.assert_array_equal(last, np.round(first[7, 0] * 255).astype(np.uint8))


def test_step_9_fills_the_devices_with_any_mix_of_prompts(guide: Followed) -> None:
    eight, twice = guide.array("eight"), guide.array("twice")
    assert eight.shape == twice.shape == (8, 1, 16, 16, 3)
    np.testing.assert_array_equal(eight[:2], twice[:2])
    assert np.abs(eight[2:] - twice[2:]).max(axis=(1, 2, 3, 4)).min() > 1e-3
    assert guide.said["two on each in bfloat16"]["pictures"][0] == [8, 2, 16, 16, 3]


def test_step_10_maps_the_function_for_one_device_by_hand(guide: Followed) -> None:
    """Step 10 has a program of its own, which sums the same values in another order."""
    np.testing.assert_allclose(guide.array("mapped"), guide.array("eight"), atol=1e-4)


def test_without_jit_there_is_no_axis_of_devices(guide: Followed) -> None:
    alone = guide.array("alone")
    assert alone.shape == (1, 16, 16, 3)
    np.testing.assert_allclose(alone, guide.array("eight")[3], atol=1e-4)
    assert guide.said["unsafe"] is False


def test_the_example_of_the_controlnet_pipeline_paints_on_every_device(guide: Followed) -> None:
    controlled = guide.array("controlled")
    assert controlled.shape == (8, 1, 64, 64, 3)
    assert np.abs(controlled - guide.array("uncontrolled")).max() > 1e-3
    with PIL.Image.open(guide.folder / "controlled.png") as grid:
        assert grid.size == (4 * 64, 2 * 64)


def test_every_device_has_its_own_strength_of_control_and_none_is_no_control(guide: Followed) -> None:
    scaled, plain = guide.array("scaled"), guide.array("uncontrolled")
    np.testing.assert_allclose(scaled[0], plain[0], atol=1e-5)
    np.testing.assert_allclose(scaled[4], guide.array("controlled")[4], atol=1e-5)
    assert min(np.abs(scaled[1:] - plain[1:]).max((1, 2, 3, 4))) > 1e-3
