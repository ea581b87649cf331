"""What the UNet of a file in the original layout predicts, noise or v, as the file and its neighbour tell.

No tensor of a network shows it. In order of precedence: `NAME.yaml` beside the file, which is the
configuration of the original code, the marks of training tools, and the step at which the training ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights.headers import Header, read_numbers
from sdjax_engine.wording import first_line, in_bytes, quoted

NOISE, V = "epsilon", "v_prediction"
STEP = "global_step"
LAST_STEP_OF_SD_2_BASE = 875_000  # by it the reference knows the form of SD 2 that predicts noise
MOST_BYTES = 64 * 2**10
PARAMETERIZATIONS = {"eps": NOISE, "v": V}


def prediction_of(file: Path, header: Header) -> str | None:
    """Return "epsilon" or "v_prediction", or None if nothing tells it; raises UnreadableCheckpoint."""
    beside = file.with_suffix(".yaml")
    if beside.is_file() and (prediction := prediction_in(beside)):
        return prediction
    noted = header.notes.get("modelspec.prediction_type", "")
    if noted in ("v", V) or "v_pred" in header.entries:
        return V
    steps = {name: entry for name, entry in header.entries.items() if name == STEP}
    ended = read_numbers(file, steps).get(STEP) if steps else None
    return NOISE if noted == NOISE or ended == LAST_STEP_OF_SD_2_BASE else None


def prediction_in(file: Path) -> str | None:
    """Return the prediction by a configuration of the original code, or None for a configuration of SDXL's.

    Raises UnreadableCheckpoint.
    """
    params = settings_in(file)
    if "parameterization" not in params:
        return None if "denoiser_config" in params else NOISE
    prediction = PARAMETERIZATIONS.get(str(params["parameterization"]))
    if prediction is None:
        raise UnreadableCheckpoint(
            f"{file}: parameterization is {quoted(params['parameterization'])}, which is not supported; "
            f"known are {' and '.join(PARAMETERIZATIONS)}."
        )
    return prediction


def settings_in(file: Path) -> Mapping[str, Any]:
    """Return model.params of a configuration of the original code; raises UnreadableCheckpoint."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UnreadableCheckpoint(f"{file} has more than {in_bytes(MOST_BYTES)} of YAML.")
        # This loader makes texts, lists and mappings only: no tags, no merged keys, whose number can explode.
        content = yaml.load(data, yaml.BaseLoader)  # noqa: S506
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UnreadableCheckpoint(f"{file} cannot be read: {first_line(error)}") from error
    except RecursionError:
        raise UnreadableCheckpoint(f"{file} is YAML that is nested too deep.") from None
    for key in ("model", "params"):
        content = content.get(key) if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping):
        raise UnreadableCheckpoint(
            f"{file} is no configuration of the original code: it has no model.params."
        )
    return content
