"""The names of samplers as people type them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import Sampler

SAMPLER_ALIASES: Mapping[str, Sampler] = MappingProxyType(
    {
        "plms": Sampler.PNDM,
        "k_euler": Sampler.EULER,
        "euler_a": Sampler.EULER_ANCESTRAL,
        "k_euler_a": Sampler.EULER_ANCESTRAL,
        "k_euler_ancestral": Sampler.EULER_ANCESTRAL,
        "dpm_2m": Sampler.DPMPP_2M,
        "dpm_2m_karras": Sampler.DPMPP_2M_KARRAS,
        "dpm_2m_sde": Sampler.DPMPP_2M_SDE,
        "dpm_2m_sde_karras": Sampler.DPMPP_2M_SDE_KARRAS,
        "dpm_sde": Sampler.DPMPP_SDE,
        "k_heun": Sampler.HEUN,
        "uni_pc": Sampler.UNIPC,
        "uni_pc_bh2": Sampler.UNIPC,
        "flow": Sampler.FLOW_EULER,
        "flow_match_euler": Sampler.FLOW_EULER,
    }
)
"""Other names of samplers, in lower case and with underscores, as `parse_sampler` looks them up."""


def parse_sampler(name: str) -> Sampler:
    """Return the sampler of this name, or raise `InvalidRequest` that names all samplers.

    Case, spaces, hyphens and pluses do not matter, and `SAMPLER_ALIASES` are understood.
    """
    written = "_".join(name.lower().replace("+", "p").replace("-", " ").replace("_", " ").split())
    try:
        return SAMPLER_ALIASES.get(written) or Sampler(written)
    except ValueError:
        raise InvalidRequest("sampler", value=name, choices=", ".join(Sampler)) from None
