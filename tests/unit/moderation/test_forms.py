"""What the rules read of a prompt beside its text as it is written."""

from __future__ import annotations

import pytest

from bot.moderation.forms import forms_of


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("bl&#111;od", ["blood"]),
        ("bl&amp;#111;od", ["blood"]),
        ("dead bo(d)y", ["dead body"]),
        ("de(ad:1) bo(dy:1)", ["dead body"]),
        ("(b: 1.0)(lo: 1.0)(od: 1.0)", ["blood"]),
        ("bl(: 1 )ood", ["blood"]),
        ("鲜(:1.0)血", ["鲜血"]),
        ("(bl&#111;od:1.2)", ["(blood:1.2)", "blood"]),
        ("blood BREAK orange", ["blood orange"]),
        ("a castle in the fog", []),
        ("  a castle  ", []),
    ],
)
def test_a_prompt_is_read_as_the_engine_reads_it(written: str, read: list[str]) -> None:
    assert forms_of([written]) == [written, *read]
