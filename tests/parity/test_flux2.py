"""FLUX.2's denoising network and its autoencoder against the reference with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import randomise
from diffusers import AutoencoderKLFlux2 as ReferenceAutoencoder
from diffusers import Flux2KleinPipeline
from diffusers import Flux2Transformer2DModel as Reference
from networks import Filled, channels_first, noise, relative_difference

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models import autoencoder_kl_flux2, flux2
from sdjax_engine.models.autoencoder_kl_flux2 import AutoencoderKLFlux2
from sdjax_engine.models.flux2 import Flux2Transformer2DModel
from sdjax_engine.models.flux2_config import settle_flux2_config, settle_flux2_vae_config

pytestmark = pytest.mark.parity

BOUND = 1e-4
KLEIN: dict[str, Any] = {
    "in_channels": 24,
    "num_layers": 2,
    "num_single_layers": 3,
    "attention_head_dim": 16,
    "num_attention_heads": 3,
    "joint_attention_dim": 54,
    "axes_dims_rope": (2, 4, 4, 6),
    "rope_theta": 2000,
    "guidance_embeds": False,
}
SIZES = ((3, 4), (4, 2))
"""Heights and widths of reference pictures, in packed latents."""


def difference(references: int = 0) -> float:
    network = randomise(Reference(**KLEIN), seed=32)
    sample, states = noise(2, 5, 7, 24), noise(2, 40, 54, seed=1)
    timesteps = np.array([900.0, 300.0], np.float32)
    others = [noise(2, *size, 24, seed=5 + place) for place, size in enumerate(SIZES[:references])]
    pipeline = Flux2KleinPipeline
    pictures = [channels_first(each) for each in (sample, *others)]
    ids = pipeline._prepare_latent_ids(pictures[0])
    if others:
        of_others = pipeline._prepare_image_ids([each[:1] for each in pictures[1:]]).repeat(2, 1, 1)
        ids = torch.cat([ids, of_others], dim=1)
    text = torch.from_numpy(states)
    with torch.no_grad():
        theirs = network(
            hidden_states=torch.cat([pipeline._pack_latents(each) for each in pictures], dim=1),
            timestep=torch.from_numpy(timesteps) / 1000,
            encoder_hidden_states=text,
            txt_ids=pipeline._prepare_text_ids(text),
            img_ids=ids,
            return_dict=False,
        )[0][:, :35]
    ours = Filled(Flux2Transformer2DModel, KLEIN, network)(
        *(sample, timesteps, states, *others),
        call=lambda net, x, t, prompt, *references: net(x, t, net.read(prompt), references),
    )
    return relative_difference(np.asarray(ours).reshape(2, 35, 24), theirs)


@pytest.mark.parametrize("references", [0, 1, 2])
def test_the_prediction_is_the_references(references: int) -> None:
    assert difference(references) <= BOUND


class SwappedEnds(flux2.Modulation):
    """Gives the last norm's scale and shift in each other's place."""

    def __call__(self, time: Any) -> Any:
        parts = super().__call__(time)
        return parts[::-1] if self.parts == flux2.PARTS_OF_LAST else parts


def second_half_gates(x: Any) -> Any:
    values, gates = np.split(np.arange(x.shape[-1]), 2)
    return x[..., values] * flux2.jax.nn.silu(x[..., gates])


MISTAKES: dict[str, tuple[str, Any]] = {
    "references one apart": ("BETWEEN_REFERENCES", 1),
    "the second half gates": ("gated", second_half_gates),
    "the last shift first": ("Modulation", SwappedEnds),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_small_mistake_exceeds_the_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flux2, *MISTAKES[name])
    assert difference(references=1) > 10 * BOUND


@pytest.mark.parametrize(
    "wrong",
    [
        {"guidance_embeds": True},
        {"patch_size": 2},
        {"axes_dims_rope": [2, 4, 4, 4]},
        {"out_channels": 12},
        {"num_single_layers": 10**6},
    ],
)
def test_a_network_of_another_form_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCheckpoint, match=next(iter(wrong)).removeprefix("num_single_")):
        settle_flux2_config(KLEIN | wrong)


def test_guidance_as_an_input_is_refused_where_the_key_is_missing() -> None:
    without = {key: value for key, value in KLEIN.items() if key != "guidance_embeds"}
    with pytest.raises(UnreadableCheckpoint, match="guidance_embeds"):
        settle_flux2_config(without)


VAE: dict[str, Any] = {
    "block_out_channels": (8, 16),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "layers_per_block": 1,
    "latent_channels": 6,
    "norm_num_groups": 4,
}


def reference_autoencoder(config: dict[str, Any]) -> Any:
    autoencoder = randomise(ReferenceAutoencoder(**config), seed=51)
    moments = np.random.default_rng(8)
    autoencoder.bn.running_mean.copy_(torch.from_numpy(moments.normal(size=24)))
    autoencoder.bn.running_var.copy_(torch.from_numpy(moments.uniform(2.9, 3.5, size=24)))
    return autoencoder


@pytest.mark.parametrize("wide", [None, (12, 20)])
def test_the_autoencoder_is_the_references_both_ways(wide: tuple[int, ...] | None) -> None:
    config = VAE | ({} if wide is None else {"decoder_block_out_channels": wide})
    reference, pipeline = reference_autoencoder(config), Flux2KleinPipeline
    mean = reference.bn.running_mean[None, :, None, None]
    deviation = torch.sqrt(reference.bn.running_var + 1e-4)[None, :, None, None]
    latents, pixels = noise(2, 3, 5, 24), np.tanh(noise(2, 12, 20, 3, seed=4))
    with torch.no_grad():
        pictures = reference.decode(
            pipeline._unpatchify_latents(channels_first(latents) * deviation + mean)
        ).sample
        encoded = reference.encode(channels_first(pixels)).latent_dist.mode()
        theirs = (pipeline._patchify_latents(encoded) - mean) / deviation
    ours = Filled(AutoencoderKLFlux2, config, reference)

    decoded = ours(latents, call=lambda net, x: net.decode(x))
    packed, _ = ours(pixels, call=lambda net, x: net.encode(x))

    assert relative_difference(decoded, pictures) <= BOUND
    assert relative_difference(packed, theirs) <= BOUND


def test_packing_in_another_order_exceeds_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = reference_autoencoder(VAE)
    pixels = np.tanh(noise(2, 12, 20, 3, seed=4))
    ours = Filled(AutoencoderKLFlux2, VAE, reference)
    right, _ = ours(pixels, call=lambda net, x: net.encode(x))
    in_order = autoencoder_kl_flux2.packed
    monkeypatch.setattr(autoencoder_kl_flux2, "packed", lambda x: in_order(x.swapaxes(1, 2)).swapaxes(1, 2))
    wrong, _ = ours(pixels, call=lambda net, x: (net.encode(x)[0], 0))
    assert relative_difference(wrong, torch.from_numpy(np.array(right)).permute(0, 3, 1, 2)) > 10 * BOUND


@pytest.mark.parametrize("wrong", [{"patch_size": [1, 1]}, {"decoder_block_out_channels": [8]}])
def test_an_autoencoder_of_another_form_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCheckpoint, match=next(iter(wrong))):
        settle_flux2_vae_config(VAE | wrong)
