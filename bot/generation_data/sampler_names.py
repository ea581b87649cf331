"""The samplers of other tools by their names and schedules, as samplers of this engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sdjax_engine.request import Sampler
from sdjax_engine.sampler_names import SAMPLER_ALIASES

PLAIN_SCHEDULES = ("", "automatic", "normal", "none")
"""Names of schedules that stand for the sampler's own schedule."""

WITH_KARRAS: Mapping[Sampler, Sampler] = {
    Sampler.DPMPP_2M: Sampler.DPMPP_2M_KARRAS,
    Sampler.DPMPP_2M_SDE: Sampler.DPMPP_2M_SDE_KARRAS,
}


@dataclass(frozen=True, kw_only=True)
class Named:
    """A sampler; `exact` is false where its schedule is not known here, and the sampler's own is used."""

    sampler: Sampler
    exact: bool = True


def named_sampler(name: str, schedule: str = "") -> Named | None:
    """Return the sampler of a tool's names; None for a sampler that is not known here.

    `DPM++ 2M Karras` (A1111), `dpmpp_2m` with `karras` (ComfyUI) and `dpmpp_2m_k` (InvokeAI) are the same.
    """
    written, schedule = _normal(name), _normal(schedule)
    found = _known(written)
    if found is not None and found in WITH_KARRAS.values():
        return Named(sampler=found, exact=schedule in (*PLAIN_SCHEDULES, "karras"))
    for ending, meant in (("_karras", "karras"), ("_k", "karras"), ("_exponential", "exponential")):
        if found is None and written.endswith(ending):
            found, schedule = _known(written.removesuffix(ending)), meant
    if found is None:
        return None
    # The automatic schedule of A1111 is Karras' for these samplers.
    if schedule in ("karras", "automatic") and found in WITH_KARRAS:
        return Named(sampler=WITH_KARRAS[found])
    return Named(sampler=found, exact=schedule in PLAIN_SCHEDULES)


def _known(written: str) -> Sampler | None:
    if written in SAMPLER_ALIASES:
        return SAMPLER_ALIASES[written]
    if written in set(Sampler):
        return Sampler(written)
    if written.endswith("_gpu"):
        return _known(written.removesuffix("_gpu"))
    return _known(written.removeprefix("k_")) if written.startswith("k_") else None


def _normal(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name[:100].casefold().replace("+", "p")).strip("_")
