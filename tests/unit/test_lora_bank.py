"""The rows of the bank that a seat gathers, and LoRAs that are refused before loading."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from engines import TINY
from safetensors.numpy import save_file

from sdjax_engine.config import ModelSpec
from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.model.loras import BankRows, LoraBank, read_all
from sdjax_engine.models.lora_bank import LayerPath, LayerShape
from sdjax_engine.request import Lora

BANK = LoraBank(spans={"ink": BankRows(first=1, rank=2), "wash": BankRows(first=3, rank=1)}, rank=4)
SHAPES = {LayerPath(component="unet", path="conv_in"): LayerShape(width_in=4, width_out=8, window=(3, 3))}


def saved(file: Path, *, rank: int, name: str = "conv_in") -> Path:
    down, up = np.ones((rank, 4, 3, 3), np.float32), np.ones((8, rank, 1, 1), np.float32)
    save_file({f"lora_unet_{name}.lora_down.weight": down, f"lora_unet_{name}.lora_up.weight": up}, file)
    return file


def test_a_seat_gathers_its_loras_rows_and_zeros_beside() -> None:
    rows, scales = BANK.seat_rows((Lora(name="wash", weight=-0.5), Lora(name="ink", weight=2.0)))
    assert rows.tolist() == [3, 1, 2, 0]
    assert scales.tolist() == [-0.5, 2.0, 2.0, 0.0]


def test_a_seat_without_loras_gathers_row_zero_only() -> None:
    rows, scales = BANK.seat_rows(())
    assert not rows.any()
    assert not scales.any()


def test_an_unknown_lora_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match="no LoRA called “oil”: choose from ink, wash"):
        BANK.seat_rows((Lora(name="oil"),))


def test_loras_are_refused_all_at_once_with_the_setting_to_raise(tmp_path: Path) -> None:
    files = {
        "large": saved(tmp_path / "large.safetensors", rank=5),
        "other": saved(tmp_path / "other.safetensors", rank=1, name="conv_else"),
    }
    with pytest.raises(UnreadableCheckpoint, match=r"rank 5: raise lora_rank, now 4\. .*conv_else"):
        read_all(files, SHAPES, rank=4)
    assert read_all({"large": files["large"]}, SHAPES, rank=0)["large"].rank == 5


@pytest.mark.parametrize("rank", [64, 0])
def test_a_model_has_the_files_of_the_loras_it_offers(rank: int, tmp_path: Path) -> None:
    offer = dataclasses.replace(TINY, loras=("ink",))
    files = {"ink": tmp_path / "ink.safetensors"}
    assert ModelSpec(offer=offer, source="demo", loras=files, lora_rank=rank).loras == files
    with pytest.raises(ValueError, match=r"offers the LoRAs \['ink'\], but has files of \[\]"):
        ModelSpec(offer=offer, source="demo", lora_rank=rank)


def test_a_rank_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot have a LoRA rank of -1"):
        ModelSpec(offer=TINY, source="demo", lora_rank=-1)
