"""The key of peft's setting `alpha_pattern` for a layer: the first key that matches the end of its path.

peft reads every key as a regular expression, but almost every file has plain names of layers as keys. Files
are untrusted, and matching an expression can take exponential time. So names are looked up, and only
expressions with a bounded time are matched.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from sdjax_engine.wording import quoted

NAME = re.compile(r"\^?[\w.-]+")
DANGEROUS = re.compile(r"\)[*+?{]|\(\?")  # a repeated group, or flags, which could hide one
MOST_REPEATS = 2  # each multiplies the time by the length of a path
MOST_ALTERNATIVES = 4
LONGEST = 400  # characters
MOST_EXPRESSIONS = 8
MOST_PATTERNS = 10_000


def find_pattern(patterns: Collection[str], paths: Iterable[str]) -> str | None:
    """Return the first of `patterns` that matches one of a layer's `paths`, or None.

    Raises ValueError for expressions that could take long to match, and for invalid expressions.
    """
    if len(patterns) > MOST_PATTERNS:
        raise ValueError(f"alpha_pattern has more than {MOST_PATTERNS} entries")
    paths = tuple(paths)
    names = {end for path in paths for end in ends(path)}
    expressions = 0
    for pattern in patterns:
        if pattern in names:
            return pattern
        if NAME.fullmatch(pattern):
            continue
        expressions += 1
        if expressions > MOST_EXPRESSIONS:
            raise ValueError(f"alpha_pattern has more than {MOST_EXPRESSIONS} regular expressions")
        matcher = compiled(pattern)
        if any(matcher.fullmatch(path) for path in paths):
            return pattern
    return None


def ends(path: str) -> Iterator[str]:
    """Yield the names that match a layer: its path from each dot on, and, after a `^`, its whole path."""
    yield f"^{path}"
    parts = path.split(".")
    for start in range(len(parts)):
        yield ".".join(parts[start:])


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression as peft matches it; raises ValueError."""
    repeats = sum(map(pattern.count, "*+?{"))
    if (
        repeats > MOST_REPEATS
        or pattern.count("|") > MOST_ALTERNATIVES
        or len(pattern) > LONGEST
        or DANGEROUS.search(pattern)
    ):
        raise ValueError(
            f"the expression {quoted(pattern)} in alpha_pattern could take too long: name layers"
        )
    try:
        return re.compile(rf"(.*\.)?({pattern})")
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{quoted(pattern)} in alpha_pattern is no regular expression") from error
