"""Trains what lies beside the packaged checkpoint, and packs it: a LoRA, and a picture classifier.

    python -m sdjax_engine.demo.training.beside [--state FOLDER] [--into FOLDER]

The packaged checkpoint paints one or two shapes in ten colours on a plain ground, in one size. So do the
pictures here; the LoRA's are drawn in neon, since the checkpoint's autoencoder knows no gold. It takes a
quarter of an hour on a core. Two processes with `--only` take half of that; a run without it then packs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from diffusers import AutoencoderKL, UNet2DConditionModel
from transformers import CLIPTextModel

from sdjax_engine.demo.drawing import Sprites
from sdjax_engine.demo.painting import painting
from sdjax_engine.demo.scenes import Scene, sample_scene
from sdjax_engine.demo.training import classifier, lora, pack
from sdjax_engine.demo.training.__main__ import FOLDER, workshop_in
from sdjax_engine.demo.training.denoiser import Painter, Teacher
from sdjax_engine.prompts import Tokenizer
from sdjax_engine.weights.files import DEMO_FOLDER


def sample_plain_shapes(rng: np.random.Generator) -> Scene:
    """Return a scene of the training set with one or two shapes on a plain ground, in no style."""
    while True:
        scene = sample_scene(rng, shapes_only=True)
        if scene.of_plain_shapes:
            return scene


def main() -> None:
    """Train both, and pack them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--state", type=Path, default=FOLDER / "beside", metavar="FOLDER")
    parser.add_argument("--into", type=Path, default=pack.PACKAGE, metavar="FOLDER")
    parser.add_argument(
        "--only", choices=("lora", "classifier"), help="one of the two, in a process of its own"
    )
    options = parser.parse_args()
    workshop = workshop_in(options.state)
    if options.only != "classifier":
        unet = UNet2DConditionModel.from_pretrained(DEMO_FOLDER / "unet").float()
        encoder = CLIPTextModel.from_pretrained(DEMO_FOLDER / "text_encoder").float()
        vae = AutoencoderKL.from_pretrained(DEMO_FOLDER / "vae").float().to(workshop.device).eval()
        width, height = map(int, painting()["sizes"][0].split("x"))
        teacher = Teacher(
            vae,
            Tokenizer.load(DEMO_FOLDER / "tokenizer"),
            Sprites(),
            workshop,
            finish=lora.neon,
            sample=sample_plain_shapes,
            sizes=((width, height),),
            language=lambda _: "en",
        )
        lora.write_lora(Painter(encoder, unet), teacher, workshop, options.state / "lora", name="neon")
    if options.only != "lora":
        classifier.write_classifier(
            Sprites(), workshop, options.state / "classifier", sample=sample_plain_shapes
        )
    if options.only is None:
        print(f"{pack.pack_beside(options.state, options.into):,} bytes in {options.into}")


if __name__ == "__main__":
    main()
