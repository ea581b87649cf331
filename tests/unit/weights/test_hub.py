"""Checkpoints on the hub: the real client in its own process, against a hub on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from checkpoints import make_tiny_decoder
from hub_server import Hub, Repository, serve
from safetensors.numpy import load_file, save_file
from test_cache import same

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights import load_checkpoint
from sdjax_engine.weights.hub import CUT_OFF, refusals

PROGRAM = """
import json, sys
from sdjax_engine.errors import UnreadableCheckpoint
from pathlib import Path
from sdjax_engine.weights.files import find_source
from sdjax_engine.weights.lora import find_file
from sdjax_engine.weights.folder import read_autoencoder
from sdjax_engine.weights.original.families import SD_1
from sdjax_engine.weights.companions import find_decoder

FINDERS = {
    "checkpoint": find_source,
    "decoder": find_decoder,
    "LoRA": lambda source, report: find_file(Path(source)).parent,
    "autoencoder": lambda source, report, **call: (
        Path(read_autoencoder(source, SD_1, variant=None, report=report, **call).origin).parent
    ),
}

def visit(call):
    lines = []
    try:
        path = FINDERS[call.pop("kind", "checkpoint")](call.pop("source"), report=lines.append, **call)
    except UnreadableCheckpoint as error:
        return {"refusal": str(error)}
    return {"path": str(path), "lines": lines}

print(json.dumps([visit(call) for call in json.loads(sys.argv[1])]))
"""
UNET = "unet/diffusion_pytorch_model.safetensors"
LARGE = 24 * 2**20
CALLS: dict[str, dict[str, Any]] = {
    "plain": {"source": "someone/tiny"},
    "configurations": {"source": "someone/described", "weights": False},
    "other networks": {"source": "someone/replaced", "replaced": ["vae", "denoiser"]},
    "other revision": {"source": "someone/tiny", "revision": "old"},
    "no such revision": {"source": "someone/tiny", "revision": "lost"},
    "variant": {"source": "someone/halves", "variant": "fp16"},
    "cut": {"source": "someone/cut"},
    "token": {"source": "someone/mine"},
    "gated": {"source": "someone/gated"},
    "hidden": {"source": "someone/hidden"},
    "absent": {"source": "someone/absent"},
    "decoder": {"source": "someone/decoder", "kind": "decoder"},
    "absent decoder": {"source": "someone/absent", "kind": "decoder"},
    "LoRA": {"source": "someone/lora", "kind": "LoRA"},
    "no LoRA": {"source": "someone/decoder", "kind": "LoRA"},
    "described autoencoder": {"source": "someone/vae", "kind": "autoencoder", "weights": False},
    "autoencoder": {"source": "someone/other-vae", "kind": "autoencoder"},
}


@dataclass(frozen=True, kw_only=True)
class Visit:
    """The results of every call, the requests to the hub, and the folder of its cache."""

    results: dict[str, dict[str, Any]]
    hub: Hub
    cache: Path


@pytest.fixture(scope="module")
def visit(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    room = tmp_path_factory.mktemp("hub")
    old = Path(shutil.copytree(original, room / "old"))
    (old / "README.md").write_text("not wanted")
    (old / "unet" / "diffusion_pytorch_model.bin").write_bytes(b"not wanted")
    decoder = make_tiny_decoder(room / "decoder")
    (decoder / "diffusion_pytorch_model.bin").write_bytes(b"not wanted")
    lora = room / "lora"
    lora.mkdir()
    save_file({"a": load_file(original / UNET)["conv_in.bias"]}, lora / "pytorch_lora_weights.safetensors")
    (lora / "another.safetensors").write_bytes(b"not wanted")
    repositories = {
        "someone/lora": Repository(revisions={"main": lora}),
        "someone/vae": Repository(revisions={"main": original / "vae"}),
        "someone/other-vae": Repository(revisions={"main": original / "vae"}),
        "someone/decoder": Repository(revisions={"main": decoder}),
        "someone/tiny": Repository(revisions={"main": original, "old": old}),
        "someone/described": Repository(revisions={"main": original}),
        "someone/replaced": Repository(revisions={"main": original}),
        "someone/halves": Repository(revisions={"main": with_variant(original, room / "halves")}),
        "someone/cut": Repository(revisions={"main": with_large_file(original, room / "large")}, cut={UNET}),
        "someone/mine": Repository(revisions={"main": original}, token="mine"),
        "someone/gated": Repository(revisions={"main": original}, token="another's"),
        "someone/hidden": Repository(revisions={"main": original}, token="another's", hidden=True),
    }
    with serve(repositories) as hub:
        environment = os.environ | {
            "HF_ENDPOINT": hub.endpoint,
            "HF_HOME": str(room / "home"),
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": "mine",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(list(CALLS.values()))],
            capture_output=True,
            check=False,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[3],
        )
    assert done.returncode == 0, done.stderr
    results = dict(zip(CALLS, json.loads(done.stdout), strict=True))
    return Visit(results=results, hub=hub, cache=room / "home" / "hub")


def with_variant(original: Path, folder: Path) -> Path:
    """A copy whose UNet has half-precision shards beside the plain file; the autoencoder has none."""
    shutil.copytree(original, folder)
    tensors = load_file(folder / UNET)
    names = sorted(tensors)
    parts = {1: names[::2], 2: names[1::2]}
    file = "diffusion_pytorch_model.fp16-0000{}-of-00002.safetensors"
    for number, part in parts.items():
        halves = {name: tensors[name].astype("float16") for name in part}
        save_file(halves, folder / "unet" / file.format(number))
    weight_map = {name: file.format(number) for number, part in parts.items() for name in part}
    index = folder / "unet" / "diffusion_pytorch_model.safetensors.index.fp16.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def with_large_file(original: Path, folder: Path) -> Path:
    """A copy with a file that the client writes in more than one piece."""
    shutil.copytree(original, folder)
    (folder / UNET).write_bytes(bytes(range(256)) * (LARGE // 256))
    return folder


def files_of(result: dict[str, Any]) -> set[str]:
    folder = Path(result["path"])
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


def refusal(visit: Visit, call: str) -> str:
    sentence = str(visit.results[call]["refusal"])
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def test_everything_of_a_checkpoint_is_fetched(visit: Visit, original: Path) -> None:
    expected = {path.relative_to(original).as_posix() for path in original.rglob("*") if path.is_file()}

    assert files_of(visit.results["plain"]) == expected


def test_download_is_reported_up_to_its_end(visit: Visit, original: Path) -> None:
    lines = visit.results["plain"]["lines"]
    size = sum(file.stat().st_size for file in original.glob("*/*.safetensors"))

    assert all(line.startswith("someone/tiny: ") and line.endswith("MB downloaded") for line in lines)
    assert lines[-1] == f"someone/tiny: {size / 1e6:.1f} of {size / 1e6:.1f} MB downloaded"


def test_only_configurations_are_fetched_for_a_description(visit: Visit) -> None:
    files = files_of(visit.results["configurations"])

    assert "unet/config.json" in files
    assert not any(name.endswith(".safetensors") for name in files)


def test_of_networks_that_other_files_replace_only_the_configurations_are_fetched(visit: Visit) -> None:
    files = files_of(visit.results["other networks"])

    assert {"unet/config.json", "vae/config.json"} <= files
    assert {name.split("/")[0] for name in files if name.endswith(".safetensors")} == {"text_encoder"}


def test_revision_is_kept_apart_and_pickles_are_left_where_they_are(visit: Visit) -> None:
    old = visit.results["other revision"]

    assert old["path"] != visit.results["plain"]["path"]
    assert not files_of(old) & {"README.md", "unet/diffusion_pytorch_model.bin"}


def test_variant_is_fetched_where_there_is_one_and_plain_files_elsewhere(visit: Visit) -> None:
    weights = {name for name in files_of(visit.results["variant"]) if name.endswith(".safetensors")}

    assert weights == {
        "text_encoder/model.safetensors",
        "unet/diffusion_pytorch_model.fp16-00001-of-00002.safetensors",
        "unet/diffusion_pytorch_model.fp16-00002-of-00002.safetensors",
        "vae/diffusion_pytorch_model.safetensors",
    }


def test_interrupted_download_is_resumed(visit: Visit) -> None:
    first, second = (first for path, first in visit.hub.fetched("someone/cut") if path == UNET)

    assert first == 0
    assert 0 < second <= LARGE // 2
    content = (Path(visit.results["cut"]["path"]) / UNET).read_bytes()
    assert content == bytes(range(256)) * (LARGE // 256)


def test_of_a_decoder_only_the_configuration_and_the_weights_are_fetched(visit: Visit) -> None:
    assert files_of(visit.results["decoder"]) == {"config.json", "diffusion_pytorch_model.safetensors"}


def test_of_a_lora_and_an_autoencoder_only_their_files_are_fetched(visit: Visit) -> None:
    assert files_of(visit.results["LoRA"]) == {"pytorch_lora_weights.safetensors"}
    assert files_of(visit.results["described autoencoder"]) == {"config.json"}
    assert files_of(visit.results["autoencoder"]) == {"config.json", "diffusion_pytorch_model.safetensors"}


def test_token_gives_access_to_its_repository(visit: Visit) -> None:
    assert UNET in files_of(visit.results["token"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("gated", ("someone/gated", "terms", "HF_TOKEN")),
        ("hidden", ("someone/hidden", "private", "HF_TOKEN")),
        ("absent", ("someone/absent", "neither a folder")),
        ("absent decoder", ("someone/absent", "neither a folder")),
        ("no LoRA", ("someone/decoder", "neither pytorch_lora_weights.safetensors nor", "file itself")),
        ("no such revision", ("“someone/tiny”", "no such revision")),
    ],
)
def test_unreadable_repositories_raise_one_sentence(call: str, words: tuple[str, ...], visit: Visit) -> None:
    sentence = refusal(visit, call)

    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize("error", CUT_OFF)
def test_connection_that_fails_during_a_transfer_raises_one_sentence(error: type[Exception]) -> None:
    sentence = r"someone/tiny.*cannot be reached.*the line is dead"

    with pytest.raises(UnreadableCheckpoint, match=sentence), refusals("someone/tiny"):
        raise error("the line is dead")


def test_downloaded_checkpoint_is_read_without_the_hub(
    visit: Visit, original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(visit.cache))

    offline = load_checkpoint("someone/tiny")

    assert same(offline, load_checkpoint(str(original)))
    assert not same(load_checkpoint("someone/halves", variant="fp16"), offline)


def test_half_a_download_is_not_enough_without_the_hub(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(visit.cache))

    with pytest.raises(UnreadableCheckpoint, match="someone/described"):
        load_checkpoint("someone/described")
