"""A newcomer's own checkpoint in the demo, by its path or by a configuration."""

from __future__ import annotations

import json
from pathlib import Path

import PIL.Image
import pytest

from bot.cli import demo as demos
from bot.cli.main import main
from bot.config import Config
from bot.process.shutdown import Shutdown
from sdjax_engine.images import read_recipe

pytestmark = pytest.mark.slow

ELSEWHERE = """
[discord]
api_url = "https://discord.example/api/v10"
gateway_url = "wss://discord.example/"
token_file = "of_the_bot.txt"
guild_ids = [1400000000000000001]
shard_count = 4
shard_ids = [3]
[web]
port = 1
[queue]
database = "sqlite+aiosqlite:///of_the_bot.sqlite3"
artifacts = "pictures_of_the_bot"
[[models]]
name = "tiny"
checkpoint = {checkpoint}
sizes = ["64x64"]
num_inference_steps = 2
[engine]
seats_per_device = 1
cpu_devices = 1
cache_dir = {cache}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


async def test_a_configuration_paints_on_the_sandbox_and_leaves_the_bots_own_queue_alone(
    here: Path, tiny_checkpoint: Path, compile_cache: Path
) -> None:
    file = here / "bot.toml"
    places = {"checkpoint": json.dumps(str(tiny_checkpoint)), "cache": json.dumps(str(compile_cache))}
    file.write_text(ELSEWHERE.format(**places))
    told: list[str] = []
    await demos.demo(Shutdown(), port=0, once=True, own=Config.load(file), report=told.append)
    [painted] = [line.removeprefix("The picture: ") for line in told if line.startswith("The picture: ")]
    with PIL.Image.open(painted) as picture:
        assert picture.size == (64, 64)
    recipe = read_recipe(Path(painted))
    assert (recipe.model, recipe.num_inference_steps) == ("tiny", 2)
    assert recipe.sampler == "pndm"  # the checkpoint's own
    assert names_in(here) == {"bot.toml", "var"}


def test_a_checkpoint_keeps_its_own_sizes_steps_and_guidance(tiny_checkpoint: Path) -> None:
    [model] = demos.demo_config(str(tiny_checkpoint)).models
    assert model.unset == {"sizes", "num_inference_steps", "guidance_scale", "sampler"}
    assert model.name == tiny_checkpoint.name


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--model", "./no/such"], "There is no folder or file “./no/such”: name a folder"),
        (["--model", "empty"], "empty is not a checkpoint in diffusers layout: it has no model_index.json."),
        (["--model", "notes.safetensors"], "notes.safetensors"),
        (["--config", "small.toml"], "and a device has 1.0 MiB: offer a smaller checkpoint"),
        (["--config", "gone.toml"], "gone.toml cannot be read"),
        (["--config", "lost.toml"], "models[1].checkpoint: there is no file or folder “/not/there”"),
        (["--config", "small.toml", "--model", "empty"], "Say --model or --config, and not both."),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_is_served(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    asked: list[str],
    said: str,
) -> None:
    (here / "empty").mkdir()
    (here / "notes.safetensors").write_text("no weights")
    (here / "small.toml").write_text("[engine]\ndevice_memory_gib = 0.001\n")
    (here / "lost.toml").write_text('[[models]]\ncheckpoint = "/not/there"\n')
    monkeypatch.setattr("sys.argv", ["sdjax-bot", "demo", "--port", "0", *asked])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    told = capsys.readouterr()
    assert said in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)


async def test_a_first_picture_that_is_refused_is_a_sentence_and_the_page_stays(
    here: Path, tiny_checkpoint: Path, compile_cache: Path
) -> None:
    file = here / "bot.toml"
    places = {"checkpoint": json.dumps(str(tiny_checkpoint)), "cache": json.dumps(str(compile_cache))}
    file.write_text(ELSEWHERE.format(**places) + "[policy]\npaint = false\n")
    told: list[str] = []
    shutdown = Shutdown()

    def tell(line: str) -> None:
        told.append(line)
        if line.endswith("(Ctrl-C stops)"):
            shutdown.request()

    await demos.demo(shutdown, port=0, once=False, own=Config.load(file), report=tell)
    assert any(line.startswith("The demo's first picture did not come: ") for line in told)
