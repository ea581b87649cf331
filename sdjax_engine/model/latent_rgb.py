"""The colours of previews: a linear map from a family's latents to RGB. No JAX here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def coloured(latents: npt.NDArray[np.float32], colours: Array) -> npt.NDArray[np.uint8]:
    """Return the preview (h, w, 3) of latents (h, w, c); a value that is no number is grey."""
    unit = np.nan_to_num(latents.astype(np.float64)) @ colours[:-1] + colours[-1]
    pixels: npt.NDArray[np.uint8] = np.clip(np.round((unit + 1) * 127.5), 0, 255).astype(np.uint8)
    return pixels
