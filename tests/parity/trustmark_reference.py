"""Writes the expected values of `test_trustmark.py`: what the package `trustmark` computes with our weights.

Run it in an environment of its own, which needs no network once it is made:

    python -m venv ENV && ENV/bin/pip install trustmark==0.9.2 torch==2.13.0
    ENV/bin/python tests/parity/trustmark_reference.py
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import trustmark_weights as weights  # noqa: E402

EXPECTED = HERE / "trustmark_expected.npz"
SIZES = ((512, 512), (384, 640), (300, 200), (1100, 700))
NUMBERS = (0, 1, 2**60 - 1, 0x123456789ABCDEF, 0xFEDCBA987654321)
CONFIG = """\
model:
  target: trustmark.model.TrustMark_Arch
  params:
    cover_key: image
    secret_key: secret
    secret_len: 100
    resolution: 256
    use_ema: false
    secret_encoder_config:
      target: trustmark.unet.Unet1
      params: {width: 32, ndown: 4, nmiddle: 1, activ: silu}
    secret_decoder_config:
      target: trustmark.unet.SecretDecoder
      params: {arch: resnet50}
    discriminator_config: {target: trustmark.model.Identity}
    loss_config: {target: trustmark.model.Identity}
    noise_config: {target: trustmark.model.Identity}
"""


def reference() -> Any:
    """Return the package's `TrustMark`, variant P, with our weights, loaded by the package's own loader."""
    real = torch.library.register_fake
    # torchvision's compiled operators, which no network here uses, may be made for another torch.
    torch.library.register_fake = lambda name, *a, **k: (
        (lambda f: f) if str(name).startswith("torchvision") else real(name, *a, **k)
    )
    from trustmark import TrustMark  # noqa: PLC0415

    made = TrustMark.__new__(TrustMark)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "trustmark_P.yaml"
        config.write_text(CONFIG)
        made.check_and_download = lambda _name: None
        for part, shapes in (("encoder", weights.encoder_shapes()), ("decoder", weights.decoder_shapes())):
            file = Path(folder) / f"{part}_P.ckpt"
            save(file, weights.values(shapes))
            setattr(made, part, made.load_model(str(config), str(file), "cpu", 100, part=part))
    from trustmark.datalayer import DataLayer  # noqa: PLC0415

    made.device, made.use_ECC, made.secret_len, made.model_type = "cpu", True, 100, "P"
    made.enctyp, made.ecc = TrustMark.Encoding.BCH_5, DataLayer(100, verbose=False, encoding_mode=1)
    made.aspect_ratio_lim, made.concentrate_wm_region = 0, 1.0
    made.model_resolution_enc, made.model_resolution_dec = 256, 224
    return made


def save(file: Path, tensors: Mapping[str, Any]) -> None:
    """Write a checkpoint as Lightning does."""
    torch.save({"state_dict": {name: torch.from_numpy(each) for name, each in tensors.items()}}, file)


def main() -> None:
    """Compute and write."""
    theirs = reference()
    data = [format(number, "060b") + "0" for number in NUMBERS]
    found: dict[str, Any] = {"bits": theirs.ecc.encode_binary(data).astype(np.uint8)}
    for number, (width, height) in zip(NUMBERS, SIZES, strict=False):
        cover = PIL.Image.fromarray(weights.picture(width, height))
        bits = theirs.ecc.encode_binary([format(number, "060b") + "0"])
        small = theirs.get_the_image_for_processing(cover).resize((256, 256), PIL.Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(small)).permute(2, 0, 1)[None] / 255 * 2 - 1
        with torch.no_grad():
            stego, _ = theirs.encoder(pixels, torch.from_numpy(bits).float())
        residual = stego.clamp(-1, 1) - pixels
        residual = residual - residual.mean(dim=(2, 3), keepdim=True)
        name = f"{width}x{height}"
        found[f"residual {name}"] = residual[0].permute(1, 2, 0).numpy()[::16, ::16]
        marked = np.asarray(theirs.encode(cover, format(number, "060b") + "0", MODE="binary"))
        found[f"marked {name}"] = marked[::9, ::7]
        found[f"edges {name}"] = np.concatenate([marked[:4, ::11].ravel(), marked[::11, -4:].ravel()])
        seen = theirs.get_the_image_for_processing(cover).resize((224, 224), PIL.Image.Resampling.BILINEAR)
        seen = torch.from_numpy(np.array(seen)).permute(2, 0, 1)[None] / 255 * 2 - 1
        with torch.no_grad():
            found[f"numbers {name}"] = theirs.decoder.decoder(seen)[0].numpy()
    np.savez_compressed(EXPECTED, **found)


if __name__ == "__main__":
    main()
