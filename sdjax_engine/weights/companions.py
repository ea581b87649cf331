"""Networks that a model is given besides its checkpoint: a decoder of previews, a classifier of pictures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sdjax_engine.errors import UnreadableCheckpoint, cut
from sdjax_engine.families.family import Latents
from sdjax_engine.json_files import read_json
from sdjax_engine.models.config import CLASSIFIER, TINY_AUTOENCODER, factor_of, labels_of
from sdjax_engine.models.pixels import ViTPreprocessing, settle_vit_preprocessing
from sdjax_engine.weights.cache import Cache
from sdjax_engine.weights.checkpoint import Component
from sdjax_engine.weights.files import (
    DIFFUSERS_STEM,
    TRANSFORMERS_STEM,
    Report,
    find_named_folder,
    weight_files,
)
from sdjax_engine.weights.load import DTYPES, Put, load_networks
from sdjax_engine.weights.networks import Part, settle_config
from sdjax_engine.weights.tensors import stored_tensors

CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
DECODER_CACHED_AS = "preview_decoder"


def load_preview_decoder(
    source: str,
    *,
    latents: Latents,
    dtype: str,
    put: Put,
    cache_dir: Path | None = None,
    report: Report | None = None,
) -> Component:
    """Read the decoder called `source`, a folder or a hub id of the reference's `AutoencoderTiny`.

    It must decode such `latents`, each cell to a square of as many pixels. Other arguments are those of
    `load_checkpoint`. Raises UnreadableCheckpoint, in one sentence, for whatever is wrong.
    """
    folder = find_decoder(source, report)
    file = folder / CONFIG
    config = read_json(file)
    if config.get("_class_name") != TINY_AUTOENCODER:
        raise UnreadableCheckpoint(
            f"{file} is of the class {cut(str(config.get('_class_name')))}: name the folder or hub id of an "
            f"{TINY_AUTOENCODER}, such as madebyollin/taesd for SD 1 and 2 or madebyollin/taesdxl for SDXL."
        )
    settled = settle_config(TINY_AUTOENCODER, config, origin=str(file))
    channels, factor = settled["latent_channels"], factor_of(settled)
    if (channels, factor) != (latents.channels, latents.cell):
        raise UnreadableCheckpoint(
            f"{source} decodes {channels} latent channels to {factor} times the size, and the model has "
            f"{latents.channels} and {latents.cell}: name a decoder that was made for the model's "
            "autoencoder, or delete the key."
        )
    stored = stored_tensors(TINY_AUTOENCODER, weight_files(folder, variant=None, stem=DIFFUSERS_STEM))
    part = Part(model=TINY_AUTOENCODER, config=settled, stored=stored, origin=str(file), dtype=DTYPES[dtype])
    cache = Cache.of(cache_dir, f"{DECODER_CACHED_AS} {source}")
    return load_companion(folder, "the decoder", part, cache=cache, cached_as=DECODER_CACHED_AS, put=put)


def load_companion(
    folder: Path, what: str, part: Part, *, cache: Cache | None, cached_as: str, put: Put
) -> Component:
    """Read one network of `folder`, called `what` in messages; raises UnreadableCheckpoint."""
    named = {what: cached_as}
    return load_networks({what: part}, origin=str(folder), cache=cache, cached_as=named, put=put)[what]


def find_decoder(source: str, report: Report | None) -> Path:
    """Return the local folder of a decoder, downloading what is missing where it is a hub id."""
    return find_named_folder(source, (CONFIG, f"{DIFFUSERS_STEM}.safetensors"), report)


CLASSIFIER_CACHED_AS = "picture_classifier"
CLASSIFIER_FILES = (
    *(CONFIG, PREPROCESSOR, f"{TRANSFORMERS_STEM}.safetensors"),
    f"{TRANSFORMERS_STEM}-?????-of-?????.safetensors",
    f"{TRANSFORMERS_STEM}.safetensors.index.jso?",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedClassifier:
    """A classifier's network, its labels in the order of the network's outputs, and its picture settings."""

    component: Component
    labels: tuple[str, ...]
    preprocessing: ViTPreprocessing

    @property
    def memory(self) -> int:
        """The bytes of its parameters."""
        return sum(array.nbytes for array in self.component.parameters.values())

    def placed(self, put: Put) -> LoadedClassifier:
        """Return the classifier with its parameters copied by `put`."""
        return replace(self, component=self.component.placed(put))


def load_picture_classifier(
    source: str,
    *,
    dtype: str,
    put: Put,
    cache_dir: Path | None = None,
    report: Report | None = None,
) -> LoadedClassifier:
    """Read the classifier called `source`, a folder or a hub id of `ViTForImageClassification`.

    The other arguments are those of `load_checkpoint`. Raises UnreadableCheckpoint, in one sentence, for
    whatever is wrong.
    """
    folder = find_named_folder(source, CLASSIFIER_FILES, report)
    config = settled_config(folder)
    size = (config["image_size"],) * 2
    preprocessing = read_preprocessing(folder / PREPROCESSOR)
    if preprocessing.size != size:
        raise UnreadableCheckpoint(
            f"{folder / PREPROCESSOR} makes pictures of {'x'.join(map(str, preprocessing.size))} pixels, and "
            f"{CONFIG} says image_size={size[0]}."
        )
    stored = stored_tensors(CLASSIFIER, weight_files(folder, variant=None, stem=TRANSFORMERS_STEM))
    origin = str(folder / CONFIG)
    part = Part(model=CLASSIFIER, config=config, stored=stored, origin=origin, dtype=DTYPES[dtype])
    cache = Cache.of(cache_dir, f"{CLASSIFIER_CACHED_AS} {source}")
    component = load_companion(
        folder, "the classifier", part, cache=cache, cached_as=CLASSIFIER_CACHED_AS, put=put
    )
    return LoadedClassifier(component=component, labels=labels_of(config), preprocessing=preprocessing)


def settled_config(folder: Path) -> dict[str, object]:
    """Return the complete configuration of the classifier in `folder`; raises UnreadableCheckpoint."""
    file = folder / CONFIG
    config = read_json(file)
    architectures = config.get("architectures")
    if architectures != [CLASSIFIER]:
        raise UnreadableCheckpoint(
            f"{file} is of the class {cut(str(architectures))}: name the folder or hub id of a {CLASSIFIER}."
        )
    return settle_config(CLASSIFIER, config, origin=str(file))


def read_preprocessing(file: Path) -> ViTPreprocessing:
    """Return the picture settings; raises UnreadableCheckpoint that names the file."""
    try:
        return settle_vit_preprocessing(read_json(file))
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(
            f"{file}: {error}" if str(file) not in str(error) else str(error)
        ) from error


def labels_at(source: str, report: Report | None = None) -> tuple[str, ...]:
    """Return the labels of the classifier called `source`, reading config.json only.

    Raises UnreadableCheckpoint.
    """
    return labels_of(settled_config(find_named_folder(source, CLASSIFIER_FILES[:2], report)))
