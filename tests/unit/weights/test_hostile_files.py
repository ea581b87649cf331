"""Files that somebody made to do harm are refused in one short sentence, before anything is computed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import IMAGE_ENCODER, UNET, build_tokenizer
from flux2_klein_files import TRANSFORMER as FLUX2
from flux2_klein_files import VAE as FLUX2_VAE
from safetensors.numpy import save_file
from sd3_files import T5, build_unigram_tokenizer
from z_image_files import ENCODER, TRANSFORMER, VAE, build_chat_tokenizer

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.z_image import ZImage
from sdjax_engine.prompts import Tokenizer
from sdjax_engine.prompts.chat import ChatTokenizer
from sdjax_engine.prompts.unigram import UnigramTokenizer
from sdjax_engine.weights.embeddings import read_embedding
from sdjax_engine.weights.folder import read_denoiser
from sdjax_engine.weights.networks import settle_config
from sdjax_engine.weights.tensors import stored_tensors

LONGEST = 600
KINDS: dict[str, tuple[Callable[[], Any], Callable[[Path], Any]]] = {
    "CLIP": (build_tokenizer, Tokenizer.load),
    "chat": (build_chat_tokenizer, ChatTokenizer.load),
    "T5": (build_unigram_tokenizer, UnigramTokenizer.load),
}
HUGE_REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
PROGRAMS: dict[str, tuple[str, Any]] = {
    "a letter becomes many": ("normalizer", HUGE_REPLACE),
    "a letter becomes many, in a sequence": (
        "normalizer",
        {"type": "Sequence", "normalizers": [{"type": "NFC"}, HUGE_REPLACE]},
    ),
    "a precompiled map": ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "/////wAAAAA="}),
    "an endless search": (
        "pre_tokenizer",
        {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False},
    ),
    "no list of steps": ("pre_tokenizer", {"type": "Sequence", "pretokenizers": 7}),
    "words": ("model", {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}),
    "no vocabulary": ("model", {"type": "BPE", "vocab": [], "merges": []}),
    "pieces that are no pairs": ("model.vocab", [7]),
    "a piece as long as a prompt": ("model.vocab", [["<unk>", 0.0], ["a" * 2000, -1.0]]),
    "chance": ("model.dropout", 0.5),
    "an unknown token that is not there": ("model.unk_token", "nowhere"),
    "a prefix longer than a letter": ("model.continuing_subword_prefix", "#" * 50),
}


def refusal_of(read: Callable[[], object]) -> str:
    with pytest.raises(UnreadableCheckpoint) as refused:
        read()
    sentence = str(refused.value)
    assert len(sentence) < LONGEST
    assert sentence.isprintable()
    return sentence


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tokenizer_that_is_another_program_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    build, load = KINDS[kind]
    build().save_pretrained(tmp_path)
    load(tmp_path)
    (part, *within), value = PROGRAMS[name][0].split("."), PROGRAMS[name][1]
    file = tmp_path / "tokenizer.json"
    content = json.loads(file.read_text())
    place = content[part] if within else content
    place[within[0] if within else part] = value
    file.write_text(json.dumps(content))
    assert f"by its {part}." in refusal_of(lambda: load(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_with_a_long_word_for_a_list_is_refused_in_a_short_sentence(
    kind: str, tmp_path: Path
) -> None:
    build, load = KINDS[kind]
    build().save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"added_tokens": "x" * 10**6}))
    assert "cannot be read" in refusal_of(lambda: load(tmp_path))


def test_a_tokenizer_as_large_as_no_known_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": "x" * 2**24}))
    assert "more than 16.0 MiB" in refusal_of(lambda: ChatTokenizer.load(tmp_path))


def test_a_tokenizer_that_repeats_a_prompt_reads_it_once(tmp_path: Path) -> None:
    build_chat_tokenizer().save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    once = ChatTokenizer.load(tmp_path).tokens("a red star", length=64)
    piece = {"Sequence": {"id": "A", "type_id": 0}}
    repeating = {"type": "TemplateProcessing", "single": [piece] * 9, "pair": [], "special_tokens": {}}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"post_processor": repeating}))
    found = ChatTokenizer.load(tmp_path).tokens("a red star", length=64)
    assert (found.count, found.ids.tolist()) == (once.count, once.ids.tolist())


@pytest.mark.parametrize("token", ["\ud800x", "\n" * 10**6])
def test_a_padding_token_that_is_no_word_is_refused_in_a_short_sentence(token: str, tmp_path: Path) -> None:
    build_chat_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"pad_token": token}))
    assert "lacks the token" in refusal_of(lambda: ChatTokenizer.load(tmp_path))


def test_a_prompt_with_half_of_a_surrogate_pair_is_read(tmp_path: Path) -> None:
    build_chat_tokenizer().save_pretrained(tmp_path)
    tokenizer = ChatTokenizer.load(tmp_path)
    assert (
        tokenizer.tokens("a\ud800b", length=64).ids.tolist()
        == tokenizer.tokens("a?b", length=64).ids.tolist()
    )


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"layers.0.attention.qkv.weight": np.ones((), np.float32)}, "cannot be divided"),
        ({"layers.0.attention.qkv.weight": np.ones((145, 48), np.float32)}, "cannot be divided"),
        (
            {
                "layers.0.attention.qkv.weight": np.ones((6, 2), np.float32),
                "layers.0.attention.to_q.weight": np.ones((2, 2), np.float32),
            },
            "under two names",
        ),
    ],
)
def test_a_denoisers_file_whose_tensors_are_no_layers_is_refused(
    tensors: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    save_file(tensors, tmp_path / "z.safetensors")
    read = lambda: read_denoiser(str(tmp_path / "z.safetensors"), ZImage(), "ZImageTransformer2DModel", {})  # noqa: E731
    assert reason in refusal_of(read)


def test_a_scalar_beside_the_layers_of_a_denoiser_is_left_to_the_check_of_names(tmp_path: Path) -> None:
    save_file({"logit_scale": np.ones((), np.float32)}, tmp_path / "z.safetensors")
    part = read_denoiser(str(tmp_path / "z.safetensors"), ZImage(), "ZImageTransformer2DModel", {})
    assert part.stored["logit_scale"].shape == ()


@pytest.mark.parametrize(
    ("model", "config", "wrong"),
    [
        *(
            ("ZImageTransformer2DModel", TRANSFORMER, {key: value})
            for key in ("rope_theta", "t_scale", "norm_eps")
            for value in ("x", 0, -1, True, None, [1])
        ),
        *(("Qwen3Model", ENCODER, {"rms_norm_eps": value}) for value in ("x", -5, None)),
        *(("Qwen3Model", ENCODER, {"rope_theta": value}) for value in ("x", 0, -5)),
        *(("Qwen3Model", ENCODER, {"rope_parameters": value}) for value in ("x", [1], 7)),
        *(("AutoencoderKL", VAE, {"scaling_factor": value}) for value in ("x", [], 0, -1, True)),
        *(("AutoencoderKL", VAE, {"shift_factor": value}) for value in ("x", [1], True)),
        *(("AutoencoderKL", VAE, {"act_fn": value}) for value in (None, [])),
        *(
            ("AutoencoderKL", VAE, {"latents_mean": [0] * 16, "latents_std": [1] * 16} | {key: value})
            for key, value in (
                ("latents_mean", ["x"] * 16),
                ("latents_std", ["x"] * 16),
                ("latents_std", [0] * 16),
            )
        ),
        *(
            ("Flux2Transformer2DModel", FLUX2, {key: value})
            for key in ("eps", "rope_theta", "mlp_ratio")
            for value in ("x", 0, -1, True, None, [1])
        ),
        *(("AutoencoderKLFlux2", FLUX2_VAE, {"batch_norm_eps": value}) for value in ("x", -1, None, [])),
        *(("T5EncoderModel", T5, {"layer_norm_epsilon": value}) for value in ("x", -1, None)),
        *(("CLIPVisionModelWithProjection", IMAGE_ENCODER, {"layer_norm_eps": value}) for value in ("x", -1)),
        *(("CLIPTextModel", {}, {"layer_norm_eps": value}) for value in ("x", -1, None)),
        *(("UNet2DConditionModel", UNET, {"norm_eps": value}) for value in ("x", -1, None)),
        *(("UNet2DConditionModel", UNET, {"freq_shift": value}) for value in ("x", None, [1])),
    ],
)
def test_a_configuration_with_no_number_in_its_place_is_refused(
    model: str, config: dict[str, Any], wrong: dict[str, Any]
) -> None:
    refusal_of(lambda: settle_config(model, {"vocab_size": 99, **config, **wrong}, origin="config.json"))


@pytest.mark.parametrize("name", ["x" * 10**6, "a\n\x1b[31m", f"layers.{'9' * 5000}.mlp.up_proj.weight"])
def test_a_tensor_whose_name_is_none_of_a_layer_is_refused_in_a_short_sentence(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "cat.safetensors"
    save_file({name: np.ones(4, np.float32)}, file)
    assert "whose name is none" in refusal_of(lambda: read_embedding(file, (4,), most=3))
    assert "whose name is none" in refusal_of(lambda: stored_tensors("Qwen3Model", (file,), {"depth": 2}))
