"""The decoder of previews: a tiny autoencoder (TAESD) from a folder or the hub."""

from __future__ import annotations

from pathlib import Path

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import read_json
from sdjax_engine.models.autoencoder_tiny_config import NAME, factor_of
from sdjax_engine.weights.cache import Cache
from sdjax_engine.weights.checkpoint import Component
from sdjax_engine.weights.file_names import DIFFUSERS_STEM, Report
from sdjax_engine.weights.files import weight_files
from sdjax_engine.weights.load import DTYPES, Put, load_networks
from sdjax_engine.weights.named_folder import find_named_folder
from sdjax_engine.weights.networks import Part, plan_network, settle_config
from sdjax_engine.weights.tensors import stored_tensors
from sdjax_engine.wording import cut

CONFIG = "config.json"
CACHED_AS = "preview_decoder"


def load_preview_decoder(
    source: str,
    *,
    latent_channels: int,
    vae_scale_factor: int,
    dtype: str,
    put: Put,
    cache_dir: Path | None = None,
    report: Report | None = None,
) -> Component:
    """Read the decoder called `source`, a folder or a hub id of the reference's `AutoencoderTiny`.

    It must decode latents of `latent_channels` to `vae_scale_factor` times their size. Other arguments are
    those of `load_checkpoint`. Raises UnreadableCheckpoint, in one sentence, for whatever is wrong.
    """
    folder = find_decoder(source, report)
    file = folder / CONFIG
    config = read_json(file)
    if config.get("_class_name") != NAME:
        raise UnreadableCheckpoint(
            f"{file} is of the class {cut(str(config.get('_class_name')))}: name the folder or hub id of an "
            f"{NAME}, such as madebyollin/taesd for SD 1 and 2 or madebyollin/taesdxl for SDXL."
        )
    settled = settle_config(NAME, config, origin=str(file))
    channels, factor = settled["latent_channels"], factor_of(settled)
    if (channels, factor) != (latent_channels, vae_scale_factor):
        raise UnreadableCheckpoint(
            f"{source} decodes {channels} latent channels to {factor} times the size, and the model has "
            f"{latent_channels} and {vae_scale_factor}: name a decoder that was made for the model's "
            "autoencoder, or delete the key."
        )
    stored = stored_tensors(NAME, weight_files(folder, variant=None, stem=DIFFUSERS_STEM))
    planned = plan_network(
        Part(model=NAME, config=settled, stored=stored, origin=str(file)), dtype=DTYPES[dtype]
    )
    networks = load_networks(
        {"the decoder": planned},
        origin=str(folder),
        cache=Cache.of(cache_dir, f"{CACHED_AS} {source}"),
        cached_as={"the decoder": CACHED_AS},
        put=put,
    )
    return networks["the decoder"]


def find_decoder(source: str, report: Report | None) -> Path:
    """Return the local folder of a decoder, downloading what is missing where it is a hub id."""
    return find_named_folder(source, (CONFIG, f"{DIFFUSERS_STEM}.safetensors"), report)
