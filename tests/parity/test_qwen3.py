"""Qwen3 as a text encoder against the reference with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import randomise
from networks import Filled, relative_difference
from transformers import Qwen3Config
from transformers import Qwen3Model as Reference

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models import qwen3, rotary
from sdjax_engine.models.attention import attend
from sdjax_engine.models.config import settle_qwen3_config
from sdjax_engine.models.qwen3 import Qwen3Model

pytestmark = pytest.mark.parity

BOUND = 1e-4
LENGTHS = (31, 100, 512)
MOST = 512
SIZES: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 26,
    "intermediate_size": 57,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
}


def difference(depth: int = 3, **overrides: Any) -> float:
    """The difference of the states of texts of several lengths, padded on the right, after `depth` layers."""
    config = Qwen3Config(**SIZES)
    reference = randomise(Reference(config), seed=21)
    ids = np.random.default_rng(1).integers(0, SIZES["vocab_size"], (len(LENGTHS), MOST)).astype(np.int32)
    counted = np.arange(MOST) < np.array(LENGTHS)[:, None]
    with torch.no_grad():
        theirs = reference(
            torch.from_numpy(ids).long(), attention_mask=torch.from_numpy(counted), output_hidden_states=True
        ).hidden_states[depth]
    reference.layers, reference.norm = reference.layers[:depth], torch.nn.Identity()
    ours = Filled(Qwen3Model, {**config.to_dict(), "depth": depth, **overrides}, reference)(ids)
    return relative_difference(np.asarray(ours)[counted], theirs[torch.from_numpy(counted)])


@pytest.mark.parametrize("depth", [1, 3])
def test_the_states_after_a_layer_are_the_references(depth: int) -> None:
    assert difference(depth) <= BOUND


def test_states_of_several_layers_are_the_references_in_padding_too() -> None:
    """FLUX.2 attends to the padding of a text."""
    config = Qwen3Config(**SIZES)
    reference = randomise(Reference(config), seed=21)
    ids = np.random.default_rng(2).integers(0, SIZES["vocab_size"], (2, 80)).astype(np.int32)
    lengths = np.array([62, 7], np.int32)
    mask = torch.from_numpy(np.arange(80) < lengths[:, None])
    with torch.no_grad():
        theirs = reference(torch.from_numpy(ids).long(), attention_mask=mask, output_hidden_states=True)
    reference.layers, reference.norm = reference.layers[:3], torch.nn.Identity()
    network = Filled(Qwen3Model, {**config.to_dict(), "depth": 3}, reference)

    def states(net: Any, ids: Any, lengths: Any) -> Any:
        return net.states(ids, (1, 3), lengths=lengths)

    for after, ours in zip((1, 3), network(ids, lengths, call=states), strict=True):
        assert relative_difference(ours, theirs.hidden_states[after]) <= BOUND
    for ours in network(ids, np.array([80, 80], np.int32), call=states)[1:]:
        assert relative_difference(ours, theirs.hidden_states[3]) > 10 * BOUND


def test_the_last_layer_is_left_out_unless_a_depth_is_named() -> None:
    assert settle_qwen3_config(SIZES)["depth"] == SIZES["num_hidden_layers"] - 1


def test_the_base_of_the_angles_is_read_in_its_old_and_its_new_place() -> None:
    old = {key: value for key, value in SIZES.items() if key != "rope_parameters"} | {"rope_theta": 1e6}
    assert settle_qwen3_config(old) == settle_qwen3_config(SIZES)


WRONG: dict[str, tuple[str, Any]] = {
    "neighbours turn together": ("turn_halves", rotary.turn_neighbours),
    "a query sees every key": ("attend", lambda queries, keys_values, **_: attend(queries, keys_values)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_small_mistake_exceeds_the_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen3, *WRONG[name])
    assert difference() > 10 * BOUND


@pytest.mark.parametrize(
    "overrides", [{"rope_parameters": {"rope_theta": 1e4}}, {"rms_norm_eps": 1e-3}], ids=str
)
def test_a_wrong_value_of_the_configuration_is_noticed(overrides: dict[str, Any]) -> None:
    assert difference(**overrides) > 10 * BOUND


@pytest.mark.parametrize(
    "overrides",
    [
        {"attention_bias": True},
        {"rope_scaling": {"type": "yarn"}},
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}},
        {"num_key_value_heads": 4},
        {"head_dim": 7},
        {"depth": 5},
        {"num_hidden_layers": 10**9},
        {"vocab_size": 0},
        {"hidden_size": 2.5},
        {"quantization_config": {"quant_method": "fp8"}},
    ],
    ids=str,
)
def test_other_networks_are_refused(overrides: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCheckpoint):
        settle_qwen3_config(SIZES | overrides)
