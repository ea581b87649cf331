"""A checkpoint in the diffusers layout, whose model_index.json names the components; autoencoders by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint, cut, quoted
from sdjax_engine.families import pipelines
from sdjax_engine.families.family import Family as DescribedFamily
from sdjax_engine.json_files import read_json
from sdjax_engine.weights.checkpoint import Contents
from sdjax_engine.weights.files import (
    DIFFUSERS_STEM,
    FLAX,
    INDEX,
    KNOWN_WORDS,
    Report,
    find_named_folder,
    weight_files,
)
from sdjax_engine.weights.networks import Part, settle_config
from sdjax_engine.weights.original.families import Family, family_of
from sdjax_engine.weights.original.networks import vae_part
from sdjax_engine.weights.tensors import Stored, stored_tensors, tensors_in

CONFIG = "config.json"
AUTOENCODER = "AutoencoderKL"
PREFIXES = ("first_stage_model.", "vae.", "")  # of a whole checkpoint, and of a file of its own
OF_DIFFUSERS = "decoder.mid_block."


def read_autoencoder(
    source: str, family: Family, *, variant: str | None, weights: bool = True, report: Report | None = None
) -> Part:
    """Return the autoencoder called `source` for a checkpoint of this family.

    `source` is a folder or hub id of the reference's `AutoencoderKL`, or a .safetensors file, in the original
    layout or with the folder's names. The scaling of a file without a configuration is `family`'s. Without
    `weights` only the configuration of a hub id is downloaded. Raises UnreadableCheckpoint.
    """
    path = Path(source).expanduser()
    if path.is_file():
        return read_autoencoder_file(path, family)
    files = (CONFIG, f"{DIFFUSERS_STEM}.safetensors") if weights or path.is_dir() else (CONFIG,)
    folder = find_named_folder(source, files, report)
    return in_folder(folder, variant=variant, weights=weights)


def read_autoencoder_file(file: Path, family: Family) -> Part:
    """Return the autoencoder in `file`, of its own or within a checkpoint; raises UnreadableCheckpoint."""
    tensors = tensors_in(file)
    if any(name.startswith(OF_DIFFUSERS) for name in tensors):
        return part_of(file.parent, (file,))
    for prefix in PREFIXES:
        if f"{prefix}decoder.conv_in.weight" in tensors:
            tensors = {
                name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
            }
            return vae_part(file, tensors, family)
    raise UnreadableCheckpoint(f"{file} holds no autoencoder in the original layout: correct the key vae.")


def family_in(folder: Path, pipeline: str) -> Family:
    """Return the family of a folder's autoencoder, with the scaling that the folder's own one has."""
    family, own = family_of(pipeline), folder / AUTOENCODER_NAME / CONFIG
    config = read_json(own) if own.is_file() else {}
    factors = {key: config[key] for key in ("scaling_factor", "shift_factor") if key in config}
    return replace(family, **factors)


def in_folder(folder: Path, *, variant: str | None, weights: bool) -> Part:
    """Return the autoencoder in a folder of the diffusers layout; raises UnreadableCheckpoint."""
    files = weight_files(folder, variant=variant, stem=DIFFUSERS_STEM) if weights else ()
    return part_of(folder, files)


def part_of(folder: Path, files: tuple[Path, ...]) -> Part:
    """Return the autoencoder of the configuration in `folder` with the tensors of `files`."""
    file = folder / CONFIG
    config = read_json(file)
    kind = config.get("_class_name", AUTOENCODER)
    if kind != AUTOENCODER:
        raise UnreadableCheckpoint(
            f"{file} is of the class {cut(str(kind))}, and vae takes an {AUTOENCODER}."
        )
    return Part(
        model=AUTOENCODER,
        config=settle_config(AUTOENCODER, config, origin=str(file)),
        stored=stored_tensors(AUTOENCODER, files),
        origin=str(file),
    )


def read_denoiser(source: str, family: DescribedFamily, model: str, config: dict[str, Any]) -> Part:
    """Return the network of class `model` in the single file `source`, whose names may be another program's.

    Raises UnreadableCheckpoint.
    """
    file, names = Path(source).expanduser(), family.foreign_names
    if names is None:
        raise UnreadableCheckpoint(f"The key denoiser names {file}, and this family has no such files.")
    if not file.is_file():
        raise UnreadableCheckpoint(f"There is no file “{source}”: correct the key denoiser.")
    stored: dict[str, Stored] = {}
    for name, tensor in tensors_in(file).items():
        current = names.current_names(name)
        for index, each in enumerate(current):
            if each in stored:
                raise UnreadableCheckpoint(f"{file} has the tensor {quoted(each)} under two names.")
            stored[each] = replace(
                tensor.share(index, len(current)), exchanged=names.halves_exchanged(name, config)
            )
    return Part(model=model, config=config, stored=stored, origin=str(file))


AUTOENCODER_NAME = "vae"
"""The name of the component that the key `vae` replaces."""
OF_PICTURES = ("Img2ImgPipeline", "InpaintPipeline")
OPTIONAL = frozenset({"scheduler", "safety_checker", "feature_extractor", "image_encoder", "controlnet"})


def read_folder(
    folder: Path,
    *,
    variant: str | None,
    safety_checker: bool,
    vae: str | None = None,
    denoiser: str | None = None,
    report: Report | None = None,
) -> Contents:
    """Return the contents of the checkpoint in `folder`; the safety checker only on request and if present.

    With `vae` the autoencoder of this name is used in place of the folder's, and with `denoiser` the network
    in this file. The folder may then lack the denoiser's own. Raises UnreadableCheckpoint.
    """
    index = read_index(folder)
    pipeline = str(index["_class_name"])
    family = pipelines()[pipeline]
    models = models_in(index)
    named = {}
    if vae is not None:
        del models[AUTOENCODER_NAME]
        read = read_autoencoder(vae, family_in(folder, pipeline), variant=variant, report=report)
        named = {AUTOENCODER_NAME: read}
    if denoiser is not None:
        name = family.adaptable[0]
        model, own = models.pop(name), folder / name / CONFIG
        config = read_json(own) if own.is_file() else {}
        named[name] = read_denoiser(denoiser, family, model, settle_config(model, config, origin=str(own)))
    if safety_checker and class_in(index, "safety_checker") is not None:
        models["safety_checker"] = "StableDiffusionSafetyChecker"
    configs = {name: read_config(folder / name, model) for name, model in models.items()}
    return Contents(
        origin=str(folder),
        family=family,
        pipeline=pipeline,
        index=facts_of(index),
        tokenizers=tuple(
            family.read_tokenizer(folder / name)
            for name in family.tokenizers(pipeline)
            if is_there(index, name)
        ),
        scheduler_config=read_json(folder / "scheduler" / "scheduler_config.json"),
        preprocessor_config=(
            read_json(folder / "feature_extractor" / "preprocessor_config.json")
            if "safety_checker" in models
            else {}
        ),
        known_words=read_known_words(folder),
        components={
            name: Part(
                model=model,
                config=configs[name],
                stored=stored_tensors(model, weight_files(folder / name, variant=variant), configs[name]),
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


def facts_of(index: Mapping[str, Any]) -> dict[str, Any]:
    """Return what model_index.json says besides the components."""
    return {name: value for name, value in index.items() if not isinstance(value, list)}


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
    if pipeline not in pipelines():
        known = [name for name in pipelines() if not name.endswith(OF_PICTURES)]
        raise UnreadableCheckpoint(
            f"{folder} is a {cut(pipeline)}, which is not supported; these are: {', '.join(known)}, and "
            "their forms for pictures."
        )
    family = pipelines()[pipeline]
    wanted = {**family.classes(pipeline), **family.tokenizers(pipeline)}
    wrong = [
        f"{name} {cut(str(index.get(name)))}"
        for name, classes in wanted.items()
        if is_there(index, name) and class_in(index, name) not in classes
    ]
    wrong += [
        f"{name} {cut(str(value))}"
        for name, value in index.items()
        if isinstance(value, list)
        and class_in(index, name) is not None
        and name not in OPTIONAL
        and name not in wanted
    ]
    if index.get("requires_aesthetics_score"):
        wrong.append("requires_aesthetics_score (it refines another checkpoint's pictures)")
    if wrong:
        raise UnreadableCheckpoint(f"{folder} has parts that are not supported: {', '.join(wrong)}.")


def models_in(index: Mapping[str, Any]) -> dict[str, str]:
    """Return the classes of the networks of a checkpoint, by name, as they are in `models`."""
    pipeline = str(index["_class_name"])
    classes = pipelines()[pipeline].classes(pipeline)
    return {name: each[0] for name, each in classes.items() if is_there(index, name)}


def is_there(index: Mapping[str, Any], name: str) -> bool:
    """Whether a checkpoint must have this part: all that are not optional, and those that it names."""
    family = pipelines()[str(index["_class_name"])]
    return name not in family.optional or index.get(name) not in (None, [None, None])


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
