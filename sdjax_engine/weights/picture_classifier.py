"""The classifier of pictures: a ViT image classifier from a folder or the hub."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import read_json
from sdjax_engine.models.vit_config import NAME, labels_of
from sdjax_engine.models.vit_pixels import ViTPreprocessing, settle_vit_preprocessing
from sdjax_engine.weights.cache import Cache
from sdjax_engine.weights.checkpoint import Component
from sdjax_engine.weights.file_names import TRANSFORMERS_STEM, Report
from sdjax_engine.weights.files import weight_files
from sdjax_engine.weights.load import DTYPES, Put, load_networks
from sdjax_engine.weights.named_folder import find_named_folder
from sdjax_engine.weights.networks import Part, plan_network, settle_config
from sdjax_engine.weights.tensors import stored_tensors
from sdjax_engine.wording import cut

CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
CACHED_AS = "picture_classifier"
FILES = (
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
    folder = find_named_folder(source, FILES, report)
    config = settled_config(folder)
    size = (config["image_size"],) * 2
    preprocessing = read_preprocessing(folder / PREPROCESSOR)
    if preprocessing.size != size:
        raise UnreadableCheckpoint(
            f"{folder / PREPROCESSOR} makes pictures of {'x'.join(map(str, preprocessing.size))} pixels, and "
            f"{CONFIG} says image_size={size[0]}."
        )
    stored = stored_tensors(NAME, weight_files(folder, variant=None, stem=TRANSFORMERS_STEM))
    planned = plan_network(
        Part(model=NAME, config=config, stored=stored, origin=str(folder / CONFIG)), dtype=DTYPES[dtype]
    )
    networks = load_networks(
        {"the classifier": planned},
        origin=str(folder),
        cache=Cache.of(cache_dir, f"{CACHED_AS} {source}"),
        cached_as={"the classifier": CACHED_AS},
        put=put,
    )
    return LoadedClassifier(
        component=networks["the classifier"],
        labels=labels_of(config),
        preprocessing=preprocessing,
    )


def settled_config(folder: Path) -> dict[str, object]:
    """Return the complete configuration of the classifier in `folder`; raises UnreadableCheckpoint."""
    file = folder / CONFIG
    config = read_json(file)
    architectures = config.get("architectures")
    if architectures != [NAME]:
        raise UnreadableCheckpoint(
            f"{file} is of the class {cut(str(architectures))}: name the folder or hub id of a {NAME}."
        )
    return settle_config(NAME, config, origin=str(file))


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
    return labels_of(settled_config(find_named_folder(source, FILES[:2], report)))
