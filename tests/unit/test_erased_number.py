"""The numbers that stand for erased persons in the audit log."""

from __future__ import annotations

import secrets

import pytest

from bot.store.rows.audit import erased_number


@pytest.mark.parametrize("drawn", ["first", "last"])
def test_the_number_of_an_erased_person_is_negative_and_fits_its_column(
    drawn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda most: 0 if drawn == "first" else most - 1)
    assert -(2**63) <= erased_number() < 0
