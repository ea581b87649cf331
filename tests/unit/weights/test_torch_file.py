"""Files of `torch.save` are read without running what is in them."""

from __future__ import annotations

import collections
import os
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trustmark_weights as weights
from watermarks import SMALL, write_weights

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights.trustmark import tensors_of_torch, trustmark_parts


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_are_those_that_were_saved(tmp_path: Path, dtype: torch.dtype) -> None:
    whole = torch.arange(24).reshape(2, 3, 4).to(dtype)
    saved = collections.OrderedDict(a=whole, part=whole[1], number=torch.tensor(3, dtype=dtype))
    torch.save({"state_dict": saved, "epoch": 2}, tmp_path / "file.ckpt")
    found = tensors_of_torch(tmp_path / "file.ckpt")
    assert found.keys() == saved.keys()
    data = (tmp_path / "file.ckpt").read_bytes()
    for name, stored in found.items():
        expected = saved[name]
        assert stored.shape == tuple(expected.shape)
        raw = expected.contiguous().view(torch.uint8) if expected.ndim else expected[None].view(torch.uint8)
        assert data[stored.offset : stored.offset + stored.size] == raw.numpy().tobytes()


def test_a_parameter_and_a_bare_dictionary_are_read(tmp_path: Path) -> None:
    torch.save({"weight": torch.nn.Parameter(torch.ones(2, 2))}, tmp_path / "file.ckpt")
    assert tensors_of_torch(tmp_path / "file.ckpt")["weight"].shape == (2, 2)


class Hostile:
    """Runs a command where it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def test_a_hostile_file_runs_nothing_and_is_refused_in_one_sentence(tmp_path: Path) -> None:
    file, mark = tmp_path / "encoder_P.ckpt", tmp_path / "ran"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": Hostile(f"touch {mark}")}, protocol=2))
    with pytest.raises(
        UnreadableCheckpoint,
        match=rf"{re.escape(str(file))} is no whole file of torch: it holds posix\.system, and only tensors",
    ):
        tensors_of_torch(file)
    assert not mark.exists()


def test_broken_and_strange_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    good = write_weights(tmp_path) / "encoder_P.ckpt"
    whole = good.read_bytes()
    torch.save({"a": torch.ones(3, 4).t()}, tmp_path / "turned.ckpt")
    for name, data in (
        ("empty.ckpt", b""),
        ("cut.ckpt", whole[: len(whole) // 2]),
        ("words.ckpt", b"no archive"),
        ("turned.ckpt", (tmp_path / "turned.ckpt").read_bytes()),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UnreadableCheckpoint, match=r"is no whole file of torch: [^\n]+\.$"):
            tensors_of_torch(tmp_path / name)


def test_the_weights_of_a_watermark_are_checked_by_their_headers(tmp_path: Path) -> None:
    assert {part.config["bits"] for part in trustmark_parts(str(write_weights(tmp_path))).values()} == {100}
    (tmp_path / "decoder_P.ckpt").unlink()
    with pytest.raises(UnreadableCheckpoint, match=r"holds no decoder_P\.ckpt: name the folder"):
        trustmark_parts(str(tmp_path))
    lacking = {name: torch.from_numpy(each) for name, each in weights.values(SMALL["encoder"]).items()}
    del lacking["encoder.post.1.conv.bias"]
    write_weights(tmp_path, encoder={"state_dict": lacking})
    with pytest.raises(UnreadableCheckpoint, match=r"in TrustMarkEncoder, 1 missing: post\.1\.conv\.bias"):
        trustmark_parts(str(tmp_path))
    write_weights(tmp_path, encoder={"state_dict": {"other": torch.ones(3)}})
    with pytest.raises(UnreadableCheckpoint, match="lacks what tells the shape of its encoder_P"):
        trustmark_parts(str(tmp_path))
    fewer = weights.decoder_shapes(width=4) | {"decoder.decoder.fc.weight": (64, 128)}
    write_weights(tmp_path, {"encoder": SMALL["encoder"], "decoder": fewer})
    with pytest.raises(
        UnreadableCheckpoint, match=r"decoder_P\.ckpt is for 64 bits, and a watermark has 100"
    ):
        trustmark_parts(str(tmp_path))
    with pytest.raises(UnreadableCheckpoint, match=r"name a folder with encoder_P\.ckpt and decoder_P\.ckpt"):
        trustmark_parts(str(tmp_path / "nowhere"))
    safetensors = pytest.importorskip("safetensors.numpy")
    for part, shapes in SMALL.items():
        (tmp_path / f"{part}_P.ckpt").unlink()
        safetensors.save_file(weights.values(shapes), tmp_path / f"{part}_P.safetensors")
    assert all(np.size(part.stored) for part in trustmark_parts(str(tmp_path)).values())
