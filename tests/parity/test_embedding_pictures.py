"""Embeddings against the reference's `load_textual_inversion`: ids, encodings and finished pictures.

The networks have one block each way. Differences of pictures are the largest of any value on the scale from
0 to 1, in float32. Run with `-s` to see the figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import FAMILIES, make_tiny_checkpoint
from diffusers import DiffusionPipeline
from engines import SMALLEST, like
from pictures import LanePainter, as_latents
from safetensors.torch import load_file, save_file

from sdjax_engine.denoising.noise import initial_noise
from sdjax_engine.families.family import VECTORS, Encoding
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.request import Offer, Request
from sdjax_engine.samplers import default_sampler
from sdjax_engine.weights.files import read_json

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
]

WIDTH, HEIGHT, STEPS, TOLERANCE = 8, 16, 8, 2e-3  # the autoencoder halves both
ENCODED = 1e-5  # of the largest value
COUNTS = {"oddcat": 1, "evenhat": 5}
PROMPTS = ("a red circle", "a red oddcat", "evenhat, a oddcat circle")
WIDTHS = {"SD 1": {"": 32}, "SDXL": {"clip_l": 32, "clip_g": 48}}
UNETS: dict[str, dict[str, Any]] = {
    "SD 1": {},
    "SDXL": {"attention_head_dim": (4,), "transformer_layers_per_block": (2,)},
}


def tiny(folder: Path, family: str, **overrides: Any) -> Path:
    parts = {"unet": dict(SMALLEST["unet"]) | UNETS[family], "vae": SMALLEST["vae"]}
    return make_tiny_checkpoint(folder, **FAMILIES[family] | parts | overrides)


def embedding_files(folder: Path, family: str) -> dict[str, Path]:
    """Files of one and of several vectors, as large as those of words in random networks."""
    numbers = torch.Generator().manual_seed(5)
    files = {name: folder / f"{name}.safetensors" for name in COUNTS}
    for name, file in files.items():
        tensors = {
            key or f"<{name}>": torch.randn(COUNTS[name], width, generator=numbers)
            for key, width in WIDTHS[family].items()
        }
        save_file(tensors, file)
    return files


def offer_of(folder: Path) -> Offer:
    sampler = default_sampler(read_json(folder / "scheduler" / "scheduler_config.json"))
    steps = {"num_inference_steps": STEPS, "guidance_scale": 5.0, "sampler": sampler, "prompt_chunks": 1}
    return Offer(model="tiny", sizes=((WIDTH, HEIGHT),), **steps)  # type: ignore[arg-type]


def loaded_reference(folder: Path, files: dict[str, Path]) -> Any:
    """The pipeline with the embeddings, each loaded into the encoders that its file names."""
    pipeline = DiffusionPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    for name, file in files.items():
        for key, tensor in load_file(file).items():
            second = "_2" if key == "clip_g" else ""
            parts = {part: getattr(pipeline, part + second) for part in ("tokenizer", "text_encoder")}
            pipeline.load_textual_inversion({name: tensor}, token=name, **parts)
    return pipeline


def ids_of(pipeline: Any, tokenizer: Any, prompt: str) -> list[int]:
    written = pipeline.maybe_convert_prompt(prompt, tokenizer)
    ids: list[int] = tokenizer(written, padding="max_length", max_length=77, truncation=True).input_ids
    return ids


def encoded(model: LoadedModel, prompt: str) -> Encoding:
    texts = model.networks.texts
    tokens = texts.tokens({0: texts.read(prompt, negative=False, clip_skip=0)[0]}, 1)
    none = LoraRows(rows=jnp.zeros((1, 0), jnp.int32), scales=jnp.zeros((1, 0)))
    parameters = jax.tree.map(np.asarray, model.texts_on_devices())
    return jax.jit(lambda *given: texts.encode(*given, counted_by_host=False))(parameters, tokens, none)


def reference_picture(pipeline: Any, request: Request) -> npt.NDArray[np.float32]:
    picture: npt.NDArray[np.float32] = pipeline(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        num_inference_steps=STEPS,
        guidance_scale=request.guidance_scale,
        height=HEIGHT,
        width=WIDTH,
        latents=as_latents(initial_noise(jnp.uint32(request.seed), (HEIGHT // 2, WIDTH // 2, 4))),
        output_type="np",
    ).images[0]
    return picture


@pytest.mark.parametrize("family", WIDTHS)
def test_pictures_with_embeddings_are_the_references(family: str, tmp_path: Path) -> None:
    folder, files = tiny(tmp_path / "checkpoint", family), embedding_files(tmp_path, family)
    offer = offer_of(folder)
    pipeline = loaded_reference(folder, files)
    asked = {"height": HEIGHT, "width": WIDTH, "num_inference_steps": STEPS, "guidance_scale": 5.0}
    requests = [
        like(seed=11, sampler=offer.sampler, prompt=prompt, negative_prompt="a blue oddcat", **asked)
        for prompt in PROMPTS
    ]
    paints = LanePainter(folder, offer, embeddings=files)
    ours = paints.paint(requests)  # in one batch
    theirs = [reference_picture(pipeline, request) for request in requests]
    tokenizers = [pipeline.tokenizer, *([pipeline.tokenizer_2] if family == "SDXL" else [])]
    for prompt, one, other in zip(PROMPTS, ours, theirs, strict=True):
        text, facts = paints.model.networks.texts.read(prompt, negative=False, clip_skip=0)
        expected = [ids_of(pipeline, each, prompt) for each in tokenizers]
        ids = np.frombuffer(text.ids, np.int32).reshape(len(tokenizers), 77)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(ids, expected)
        assert facts.tokens == expected[0].index(pipeline.tokenizer.eos_token_id) - 1
        found = encoded(paints.model, prompt)
        how = {"device": "cpu", "num_images_per_prompt": 1, "do_classifier_free_guidance": False}
        states, _, *pooled = pipeline.encode_prompt(prompt=prompt, **how)
        assert relative(found.hidden, states) <= ENCODED
        assert found.pooled is None or relative(found.pooled, pooled[0]) <= ENCODED
        difference = float(np.abs(one - other).max())
        print(f"\n{family}, {prompt}: {difference:.1e}")
        assert difference <= TOLERANCE
    assert min(float(np.abs(each - ours[0]).max()) for each in ours[1:]) > 10 * TOLERANCE


def relative(ours: jax.Array, theirs: torch.Tensor) -> float:
    """The largest difference, relative to the reference's largest value."""
    reference = theirs.detach().numpy()
    return float(np.abs(np.asarray(ours) - reference).max() / np.abs(reference).max())


def test_a_prompt_ends_at_its_end_where_the_end_is_only_known_as_the_largest_id(tmp_path: Path) -> None:
    """Here the reference takes the vector of an embedding for the end."""
    files = embedding_files(tmp_path, "SDXL")
    found = [
        encoded(LanePainter(folder, offer_of(folder), embeddings=files).model, PROMPTS[2])
        for folder in (
            tiny(tmp_path / "known", "SDXL"),
            tiny(tmp_path / "unknown", "SDXL", text_encoder_2={"eos_token_id": 2}),
        )
    ]
    np.testing.assert_array_equal(found[0].pooled, found[1].pooled)


def test_other_embeddings_need_no_other_program(tmp_path: Path) -> None:
    folder, files = tiny(tmp_path / "checkpoint", "SD 1"), embedding_files(tmp_path, "SD 1")
    none, one, two = (
        LanePainter(folder, offer_of(folder), embeddings={name: files[name] for name in names}).model
        for names in ((), ("oddcat",), ("evenhat", "oddcat"))
    )
    assert jax.tree.map(repr, one.shapes) == jax.tree.map(repr, two.shapes)
    assert one.key == two.key == none.key
    assert VECTORS not in none.shapes.texts[0][0]
