"""Paints tasks by the guide's code, imported from either library.

    legacy_flax_painter.py MODULE   # "sdjax_engine", or "diffusers" in the environment of the removed classes

Each input line is a JSON object: class, checkpoint's folder, scheduler, arguments, files of the pictures,
seed, and the file for the array. Each answer is a JSON line with the seconds of the call and the shape of the
array. `legacy_flax.py` starts it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import sys
import time
import warnings
from functools import cache
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["HF_HUB_OFFLINE"] = "1"

import jax
import numpy as np
from flax.jax_utils import replicate
from flax.training.common_utils import shard
from PIL import Image

PROMPT = "a red circle on a white background"


class GuidePainter:
    """The pipelines of one library, each loaded once."""

    def __init__(self, module: str) -> None:
        self.library = importlib.import_module(module)
        self.pipeline = cache(self._load)

    def _load(self, kind: str, folder: str, scheduler: str) -> tuple[Any, Any]:
        scheduler_class = getattr(self.library, f"Flax{scheduler}Scheduler")
        pipeline, params = getattr(self.library, kind).from_pretrained(
            folder, safety_checker=None, feature_extractor=None
        )
        pipeline.scheduler, params["scheduler"] = scheduler_class.from_pretrained(
            folder, subfolder="scheduler"
        )
        return pipeline, replicate(params)

    def paint(self, told: dict[str, Any]) -> dict[str, Any]:
        """Paint one picture on each device, save them; return the call's seconds and the array's shape."""
        pipeline, params = self.pipeline(told["class"], told["folder"], told["scheduler"])
        count = jax.device_count()
        pictures = [Image.open(file).convert("RGB") for file in told["pictures"]]
        inputs = pipeline.prepare_inputs([PROMPT] * count, *([picture] * count for picture in pictures))
        arrays = [shard(np.asarray(each)) for each in (inputs if isinstance(inputs, tuple) else (inputs,))]
        if len(arrays) == 3:
            arrays = [arrays[0], arrays[2], arrays[1]]  # a call takes the mask before the masked picture
        keys = jax.random.split(jax.random.PRNGKey(told["seed"]), count)
        began = time.perf_counter()
        made = pipeline(*arrays, params, keys, **told["arguments"], jit=True)[0]
        images = np.asarray(made)
        seconds = time.perf_counter() - began
        np.save(told["save"], images)
        return {"seconds": seconds, "shape": images.shape}


def main(module: str) -> None:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
        painter = GuidePainter(module)
        for line in sys.stdin:
            print(json.dumps(painter.paint(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
