"""A checkpoint in the diffusers layout: a folder whose model_index.json names the components."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import read_json
from sdjax_engine.prompts import Tokenizer
from sdjax_engine.weights.contents import TEXT_ENCODERS, Contents
from sdjax_engine.weights.file_names import INDEX, KNOWN_WORDS, Report
from sdjax_engine.weights.files import weight_files
from sdjax_engine.weights.named_autoencoder import read_autoencoder
from sdjax_engine.weights.networks import Part, settle_config
from sdjax_engine.weights.original.families import family_of
from sdjax_engine.weights.tensors import stored_tensors
from sdjax_engine.wording import cut

PIPELINES = (
    "StableDiffusionPipeline",
    "StableDiffusionImg2ImgPipeline",
    "StableDiffusionInpaintPipeline",
    "StableDiffusionXLPipeline",
    "StableDiffusionXLImg2ImgPipeline",
    "StableDiffusionXLInpaintPipeline",
    "LatentConsistencyModelPipeline",
    "LatentConsistencyModelImg2ImgPipeline",
)
CLASSES = {
    "text_encoder": ("CLIPTextModel",),
    "text_encoder_2": ("CLIPTextModelWithProjection",),
    "unet": ("UNet2DConditionModel",),
    "vae": ("AutoencoderKL",),
    "tokenizer": ("CLIPTokenizer", "CLIPTokenizerFast"),
    "tokenizer_2": ("CLIPTokenizer", "CLIPTokenizerFast"),
}
ONLY_XL = frozenset({"text_encoder_2", "tokenizer_2"})
OPTIONAL = frozenset({"scheduler", "safety_checker", "feature_extractor", "image_encoder"})
FLAX = "Flax"  # the prefix of the removed Flax classes


def read_folder(
    folder: Path,
    *,
    variant: str | None,
    safety_checker: bool,
    vae: str | None = None,
    report: Report | None = None,
) -> Contents:
    """Return the contents of the checkpoint in `folder`; the safety checker only on request and if present.

    With `vae` the autoencoder of this name is used in place of the folder's. Raises UnreadableCheckpoint.
    """
    index = read_index(folder)
    pipeline = str(index["_class_name"])
    wanted = [name for name in (*TEXT_ENCODERS, "unet", "vae") if is_wanted(name, pipeline)]
    named = {}
    if vae is not None:
        wanted.remove("vae")
        named = {"vae": read_autoencoder(vae, family_of(pipeline), variant=variant, report=report)}
    models = {name: CLASSES[name][0] for name in wanted}
    if safety_checker and class_in(index, "safety_checker") is not None:
        models["safety_checker"] = "StableDiffusionSafetyChecker"
    configs = {name: read_config(folder / name, model) for name, model in models.items()}
    return Contents(
        origin=str(folder),
        pipeline=pipeline,
        tokenizers=tuple(
            Tokenizer.load(folder / name.replace("text_encoder", "tokenizer"))
            for name in TEXT_ENCODERS
            if name in models
        ),
        scheduler_config=read_json(folder / "scheduler" / "scheduler_config.json"),
        preprocessor_config=(
            read_json(folder / "feature_extractor" / "preprocessor_config.json")
            if "safety_checker" in models
            else {}
        ),
        force_zeros_for_empty_prompt="XL" in pipeline
        and bool(index.get("force_zeros_for_empty_prompt", True)),
        known_words=read_known_words(folder),
        parts={
            name: Part(
                model=model,
                config=configs[name],
                stored=stored_tensors(model, weight_files(folder / name, variant=variant)),
                origin=str(folder / name / "config.json"),
            )
            for name, model in models.items()
        }
        | named,
    )


def read_index(folder: Path) -> dict[str, Any]:
    """Return model_index.json with today's class names.

    Raises UnreadableCheckpoint for a pipeline with components that are not supported.
    """
    if not (folder / INDEX).is_file():
        raise UnreadableCheckpoint(f"{folder} is not a checkpoint in diffusers layout: it has no {INDEX}.")
    index = read_json(folder / INDEX)
    index["_class_name"] = str(index.get("_class_name")).removeprefix(FLAX)
    check_pipeline(folder, index)
    return index


def read_known_words(folder: Path) -> frozenset[str]:
    """Return the words in the file KNOWN_WORDS of a checkpoint, in lower case; none without the file.

    Several words in one entry are known each. Raises UnreadableCheckpoint.
    """
    if not (folder / KNOWN_WORDS).is_file():
        return frozenset()
    content = read_json(folder / KNOWN_WORDS)
    try:
        lists = [*content["words"].values(), content["also"]]
        entries = [word.casefold() for words in lists for word in words]
    except (AttributeError, KeyError, TypeError):
        raise UnreadableCheckpoint(f"{folder / KNOWN_WORDS} does not list words by language.") from None
    return frozenset(word for entry in entries for word in (entry, *entry.split()))


def check_pipeline(folder: Path, index: Mapping[str, Any]) -> None:
    pipeline = index["_class_name"]
    if pipeline not in PIPELINES:
        raise UnreadableCheckpoint(
            f"{folder} is a {cut(pipeline)}, which is not supported; these are: {', '.join(PIPELINES)}."
        )
    wrong = [
        f"{name} {cut(str(index.get(name)))}"
        for name, classes in CLASSES.items()
        if is_wanted(name, pipeline) and class_in(index, name) not in classes
    ]
    wrong += [
        f"{name} {cut(str(value))}"
        for name, value in index.items()
        if isinstance(value, list)
        and class_in(index, name) is not None
        and name not in OPTIONAL
        and not (name in CLASSES and is_wanted(name, pipeline))
    ]
    if index.get("requires_aesthetics_score"):
        wrong.append("requires_aesthetics_score (it refines another checkpoint's pictures)")
    if wrong:
        raise UnreadableCheckpoint(f"{folder} has parts that are not supported: {', '.join(wrong)}.")


def is_wanted(name: str, pipeline: str) -> bool:
    """Return whether a pipeline of this class has a component of this name."""
    return name not in ONLY_XL or "XL" in pipeline


def class_in(index: Mapping[str, Any], name: str) -> str | None:
    """Return the class that model_index.json names for a component, or None."""
    value = index.get(name)
    if not isinstance(value, list) or not value or value[-1] is None:
        return None
    return str(value[-1]).removeprefix(FLAX)


def read_config(folder: Path, model: str) -> dict[str, Any]:
    """Return the checked configuration of the network in `folder`; raises UnreadableCheckpoint."""
    file = folder / "config.json"
    return settle_config(model, read_json(file), origin=str(file))
