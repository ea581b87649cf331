"""The guide "Stable Diffusion in JAX / Flax", step by step, on eight devices; only the import line is ours.

A separate program, because the number of devices is fixed per process:

    guide_lines.py CHECKPOINT CONTROLNET FOLDER

Arrays and pictures go into FOLDER, everything else is printed as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import flax
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
from flax.jax_utils import replicate
from flax.training.common_utils import shard
from jax import pmap
from PIL import Image, ImageDraw

from sdjax_engine import (
    FlaxControlNetModel,
    FlaxStableDiffusionControlNetPipeline,
    FlaxStableDiffusionPipeline,
    make_image_grid,
)

OTHERS = ["a red circle", "a green star", "a blue heart", "a black square"]
EIGHT = [*OTHERS, *(f"{each} on the left" for each in OTHERS)]
COMPILED = "/jax/core/compile/backend_compile_duration"


class Compilations:
    """Counts what is compiled."""

    def __init__(self) -> None:
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event: str, _seconds: float, **_details: Any) -> None:
        self.count += event == COMPILED


def main(checkpoint: str, controlnet: str, folder: Path) -> None:
    said: dict[str, Any] = {}

    # 1. The devices.
    said["devices"] = jax.device_count(), jax.devices()[0].device_kind

    # 2 and 3. The precision, the pipeline and, apart from it, the parameters.
    dtype = jnp.float32
    pipeline, params = FlaxStableDiffusionPipeline.from_pretrained(checkpoint, dtype=dtype)
    said["parts"] = sorted(params)
    said["dtypes"] = sorted({str(leaf.dtype) for leaf in jax.tree.leaves(params)})

    # 4. The prompts as ids.
    prompt = "a red circle on a white background"
    prompt = [prompt] * jax.device_count()
    prompt_ids = pipeline.prepare_inputs(prompt)
    said["ids"] = prompt_ids.shape, str(prompt_ids.dtype)

    # 5. Parameters and prompts on every device.
    p_params = flax.jax_utils.replicate(params)
    prompt_ids = flax.training.common_utils.shard(prompt_ids)
    said["sharded ids"] = prompt_ids.shape
    said["replicated"] = sorted({leaf.shape[0] for leaf in jax.tree.leaves(p_params)})

    # 6. One key for each device.
    def create_key(seed: int = 0) -> jax.Array:
        return jax.random.PRNGKey(seed)

    rng = create_key(0)
    rng = jax.random.split(rng, jax.device_count())

    # 7. The pictures; the first call compiles.
    compilations = Compilations()
    images = pipeline(prompt_ids, p_params, rng, jit=True)[0]
    np.save(folder / "first.npy", images)
    before = compilations.count
    np.save(folder / "again.npy", pipeline(prompt_ids, p_params, rng, jit=True).images)
    for steps, guidance in ((7, 7.5), (3, 12.0)):
        pipeline(prompt_ids, p_params, rng, num_inference_steps=steps, guidance_scale=guidance, jit=True)
    said["compiled later"] = compilations.count - before

    # 8. As files.
    images = images.reshape((images.shape[0] * images.shape[1], *images.shape[-3:]))
    images = pipeline.numpy_to_pil(images)
    make_image_grid(images, rows=2, cols=4).save(folder / "grid.png")
    images[0].save(folder / "picture.png")

    said |= paint_mixtures(pipeline, params, p_params, rng, folder)
    said["two on each in bfloat16"] = paint_in_bfloat16(checkpoint, [*EIGHT, *EIGHT])
    paint_controlled(checkpoint, controlnet, folder)
    print(json.dumps(said))


def paint_mixtures(pipeline: Any, params: Any, p_params: Any, rng: jax.Array, folder: Path) -> dict[str, Any]:
    """Run steps 9 and 10 and a call without jit; save the pictures, return the other facts."""
    # 9. Another prompt on every device, and two prompts four times each.
    prompt_ids = shard(pipeline.prepare_inputs(EIGHT))
    np.save(folder / "eight.npy", pipeline(prompt_ids, p_params, rng, jit=True).images)
    twice = shard(pipeline.prepare_inputs(OTHERS[:2] * 4))
    np.save(folder / "twice.npy", pipeline(twice, p_params, rng, jit=True).images)

    # 10. The function for one device, mapped by hand.
    p_generate = pmap(pipeline._generate)
    images = p_generate(prompt_ids, p_params, rng)
    images = images.block_until_ready()
    np.save(folder / "mapped.npy", images)

    # And without jit: no axis of devices.
    alone = pipeline(prompt_ids[3], params, rng[3])
    np.save(folder / "alone.npy", alone.images)
    return {"unsafe": alone.nsfw_content_detected}


def paint_in_bfloat16(checkpoint: str, prompts: list[str]) -> dict[str, Any]:
    """Paint two prompts on each device; return the dtypes, and the shape of the pictures."""
    pipeline, params = FlaxStableDiffusionPipeline.from_pretrained(checkpoint, dtype=jnp.bfloat16)
    ids = shard(pipeline.prepare_inputs(prompts))
    keys = jax.random.split(jax.random.PRNGKey(0), jax.device_count())
    images = pipeline(ids, replicate(params), keys, num_inference_steps=3, jit=True).images
    return {
        "parameters": sorted({str(leaf.dtype) for leaf in jax.tree.leaves(params)}),
        "pictures": [images.shape, str(images.dtype)],
        "finite": bool(np.isfinite(images).all()),
        "varied": float(images.std()),
    }


def paint_controlled(checkpoint: str, network: str, folder: Path) -> None:
    """Run the example of the ControlNet pipeline's own page, and its function for one device."""
    rng = jax.random.PRNGKey(0)
    canny_image = Image.new("RGB", (70, 65))
    ImageDraw.Draw(canny_image).ellipse((10, 10, 50, 50), outline="white")
    prompts = "best quality, extremely detailed"
    negative_prompts = "monochrome, lowres, bad anatomy, worst quality, low quality"

    controlnet, controlnet_params = FlaxControlNetModel.from_pretrained(
        network, from_pt=True, dtype=jnp.float32
    )
    pipe, params = FlaxStableDiffusionControlNetPipeline.from_pretrained(
        checkpoint, controlnet=controlnet, dtype=jnp.float32
    )
    params["controlnet"] = controlnet_params

    num_samples = jax.device_count()
    rng = jax.random.split(rng, jax.device_count())
    prompt_ids = pipe.prepare_text_inputs([prompts] * num_samples)
    negative_prompt_ids = pipe.prepare_text_inputs([negative_prompts] * num_samples)
    processed_image = pipe.prepare_image_inputs([canny_image] * num_samples)

    p_params = replicate(params)
    prompt_ids = shard(prompt_ids)
    negative_prompt_ids = shard(negative_prompt_ids)
    processed_image = shard(processed_image)

    output = pipe(
        prompt_ids=prompt_ids,
        image=processed_image,
        params=p_params,
        prng_seed=rng,
        num_inference_steps=5,
        neg_prompt_ids=negative_prompt_ids,
        jit=True,
    ).images
    np.save(folder / "controlled.npy", output)
    output_images = pipe.numpy_to_pil(np.asarray(output.reshape((num_samples, *output.shape[-3:]))))
    output_images = make_image_grid(output_images, num_samples // 4, 4)
    output_images.save(folder / "controlled.png")

    scales = jnp.ones((num_samples, 1)) * jnp.arange(num_samples)[:, None] / 4
    scaled = pipe(
        *(prompt_ids, processed_image, p_params, rng, 5, 7.5, None, negative_prompt_ids),
        controlnet_conditioning_scale=scales,
        jit=True,
    )
    np.save(folder / "scaled.npy", scaled.images)
    plain = FlaxStableDiffusionPipeline.from_pretrained(checkpoint, dtype=jnp.float32)[0]
    size = {"height": 64, "width": 64, "neg_prompt_ids": negative_prompt_ids}
    np.save(folder / "uncontrolled.npy", plain(prompt_ids, p_params, rng, 5, **size, jit=True).images)


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
