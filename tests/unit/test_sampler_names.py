"""The names that people type for samplers."""

from __future__ import annotations

import pytest

from sdjax_engine.errors import InvalidRequest
from sdjax_engine.images import SAMPLER_LABELS
from sdjax_engine.request import Sampler
from sdjax_engine.sampler_names import SAMPLER_ALIASES, parse_sampler


@pytest.mark.parametrize(
    ("typed", "sampler"),
    [
        ("ddim", Sampler.DDIM),
        ("Euler a", Sampler.EULER_ANCESTRAL),
        ("euler_a", Sampler.EULER_ANCESTRAL),
        ("  Euler  Ancestral ", Sampler.EULER_ANCESTRAL),
        ("PLMS", Sampler.PNDM),
        ("DPM++ 2M", Sampler.DPMPP_2M),
        ("dpm++-2m-karras", Sampler.DPMPP_2M_KARRAS),
        ("DPM++ 2M SDE", Sampler.DPMPP_2M_SDE),
        ("DPM++ 2M SDE Karras", Sampler.DPMPP_2M_SDE_KARRAS),
        ("dpm++ sde", Sampler.DPMPP_SDE),
        ("UniPC", Sampler.UNIPC),
        ("Uni-PC", Sampler.UNIPC),
        ("Heun", Sampler.HEUN),
        ("LCM", Sampler.LCM),
        ("Flow Euler", Sampler.FLOW_EULER),
    ],
)
def test_a_name_is_understood_in_any_spelling(typed: str, sampler: Sampler) -> None:
    assert parse_sampler(typed) is sampler


@pytest.mark.parametrize("sampler", Sampler)
def test_a_sampler_is_understood_by_its_own_name_and_by_its_label(sampler: Sampler) -> None:
    assert parse_sampler(sampler) is sampler
    assert parse_sampler(SAMPLER_LABELS[sampler]) is sampler


def test_no_other_name_hides_a_sampler_s_own() -> None:
    assert not SAMPLER_ALIASES.keys() & {sampler.value for sampler in Sampler}


@pytest.mark.parametrize("typed", ["", "euler b", "karras", "DPM++ 9M"])
def test_an_unknown_name_is_refused_with_the_known_ones(typed: str) -> None:
    with pytest.raises(InvalidRequest, match=r"choose from ddim, .*unipc"):
        parse_sampler(typed)
