"""Stretched letters: bloooood is blood, but as is not ass, and good is not god."""

from __future__ import annotations

import re

from bot.moderation.english import is_no_stretching
from bot.moderation.scripts import is_latin, squeeze

_RUN = re.compile(r"((.)\2*)", re.DOTALL)
_OFTEN_DOUBLED = ("يي", "وو", "لل")


def is_stretched(word: str, form: str, key: str) -> bool:
    """Return whether `word` is `form`, or `form` with some letters repeated; both squeeze to `key`."""
    if word == form:
        return True
    if len(form) == len(key) and len(word) - len(form) > 1 and form.isalpha():
        return True  # no letter of the form is doubled, and more than one letter was added: the quick way
    word_runs = [run for run, _ in _RUN.findall(word)]
    form_runs = [run for run, _ in _RUN.findall(form)]
    if len(word_runs) != len(form_runs) or any(map(_is_shorter, word_runs, form_runs)):
        return False
    longer = [run for run, own in zip(word_runs, form_runs, strict=True) if run != own]
    if any(run[0].isdigit() for run in longer):
        return False
    if len(longer[0]) > 2 or len(longer) > 1:
        return True
    return not is_no_stretching(word) if is_latin(word) else len(form) > 3 and longer[0] not in _OFTEN_DOUBLED


def _is_shorter(run: str, other: str) -> bool:
    return len(run) < len(other)


def is_stretched_end(word: str, form: str) -> bool:
    """Return whether the end of `word` is `form`, some of whose letters may be repeated."""
    key, runs = squeeze(form), [run for run, _ in _RUN.findall(word)]
    end = "".join(runs[-len(key) :])
    return end.endswith(form) or (squeeze(end) == key and is_stretched(end, form, key))
