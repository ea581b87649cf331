"""Every program of a lane, by the vendors' compilers: no branch, and no loop whose end a device computes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checkpoints import make_tiny_checkpoint
from engines import SMALLEST

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / ".compilers" / "tpu" / "libtpu" / "libtpu.so"
PROGRAMS = {"encode", "begin", "empty", "admit", "condition", "denoise", "take", "decode", "estimate"}
OF_SOME_ROWS = {"denoise, 1 row", "denoise, 2 rows"}

OTHER_BLOCKS = {
    "block_out_channels": (32, 32),
    "down_block_types": ("DownBlock2D", "DownBlock2D"),
    "mid_block_type": "UNetMidBlock2DCrossAttn",
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}
"""A UNet of the blocks that SMALLEST lacks, with attention in the middle and on the way up."""

LEAST_EFFORT = {"JAX_EXEC_TIME_OPTIMIZATION_EFFORT": "-1.0", "JAX_MEMORY_FITTING_EFFORT": "-1.0"}
"""Makes the same kernels in half the time, and only places their arrays worse, which no test looks at."""

Row = dict[str, Any]


@pytest.fixture(scope="module", params=["v5e", "h200"])
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """SD 1, and SDXL's inpainting with long prompts in an odd size, compiled by one process.

    The networks are small, because the compilers take long: `make compiled` compiles the demo's.
    """
    python, told = tpu_compiler() if request.param == "v5e" else cuda_compiler()
    folder = tmp_path_factory.mktemp("compiled")
    unet = SMALLEST["unet"] | {"in_channels": 9, "attention_head_dim": 4, "transformer_layers_per_block": 1}
    vae = SMALLEST["vae"] | {"mid_block_add_attention": True}
    plain = make_tiny_checkpoint(folder / "plain", **SMALLEST | {"unet": OTHER_BLOCKS})
    kind = "StableDiffusionXLInpaintPipeline"
    texts = {name: {"num_hidden_layers": 1} for name in ("text_encoder", "text_encoder_2")}
    odd = make_tiny_checkpoint(folder / "odd", pipeline=kind, unet=unet, vae=vae, **texts)
    figures = folder / "figures.json"
    command = [python, str(ROOT / "benchmarks" / "compiled.py"), "--on", request.param, "--chunks", "3"]
    command += ["--seats", "2", "--json", str(figures), "--checkpoint", f"{plain}@16", f"{odd}@10"]
    command += ["--fitted", str(odd)]
    done = subprocess.run(
        command,
        env={**os.environ, **told, **LEAST_EFFORT, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Row] = json.loads(figures.read_text())
    return found


def tpu_compiler() -> tuple[str, dict[str, str]]:
    """The Python with the TPU's compiler, of `make tpu-compiler`, and its environment variables."""
    if named := os.environ.get("TPU_LIBRARY_PATH"):
        return sys.executable, {"TPU_LIBRARY_PATH": named}
    if LIBRARY.is_file():
        return sys.executable, {"TPU_LIBRARY_PATH": str(LIBRARY)}
    if importlib.util.find_spec("libtpu"):
        return sys.executable, {}
    pytest.skip("the TPU's compiler is not installed: make tpu-compiler")


def cuda_compiler() -> tuple[str, dict[str, str]]:
    """The Python with NVIDIA's compiler (5 GB), which `make compiled` installs and names; no variables."""
    if named := os.environ.get("CUDA_COMPILER_PYTHON"):
        return str(Path(named).absolute()), {}
    pytest.skip("NVIDIA's compiler is not named: make compiled")


def programs_of(row: Row) -> dict[str, Row]:
    """The programs by their names without the model's and the lane's."""
    return {each["name"].split(" ", 1)[1]: each for each in row["programs"]}


@pytest.mark.timeout(900)
def test_no_program_has_a_branch_or_a_loop_whose_end_the_device_computes(rows: list[Row]) -> None:
    assert len(rows) == 2
    for row, further in zip(rows, (set[str](), OF_SOME_ROWS), strict=True):
        assert programs_of(row).keys() == PROGRAMS | further
        for each in row["programs"]:
            profile = each["profile"]
            assert (profile["conditionals"], profile["unbounded_loops"]) == (0, 0), each["name"]


@pytest.mark.timeout(900)
def test_the_state_of_seats_is_changed_in_place(rows: list[Row]) -> None:
    """The seats' arrays reuse the memory of the arguments: all but the word that the host waits for."""
    for row in rows:
        programs = programs_of(row)
        for name in {"admit", "denoise", *OF_SOME_ROWS} & programs.keys():
            program = programs[name]
            assert program["aliased"] > 0
            assert program["outputs"] - program["aliased"] <= 0.05 * program["outputs"], name
        assert programs["denoise"]["arguments"] > programs["denoise"]["aliased"]
