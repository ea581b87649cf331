"""The form of a session, read as a plan. Each mistake is one sentence."""

from __future__ import annotations

from bot.domain.errors import UserMistake

MAX_THEME = 300  # characters
MAX_WORDS = 10
MAX_WORD = 40  # characters
MAX_MINUTES = 24 * 60
MAX_QUOTA = 50  # pictures
MINUTE = 60.0


def read_theme(text: str) -> str:
    """Return the theme on one line; raises UserMistake `session_theme`."""
    theme = " ".join(text.split()).strip(" ,")
    if len(theme) > MAX_THEME:
        raise UserMistake("session_theme", limit=MAX_THEME)
    return theme


def read_words(text: str) -> tuple[str, ...]:
    """Return the required words, which commas or lines divide; raises UserMistake `session_required`."""
    found = (" ".join(part.split()) for part in text.replace("\n", ",").replace("，", ",").split(","))
    words = tuple(dict.fromkeys(filter(None, found)))
    if len(words) > MAX_WORDS or any(len(word) > MAX_WORD for word in words):
        raise UserMistake("session_required", limit=MAX_WORDS, characters=MAX_WORD)
    return words


def read_minutes(text: str) -> float | None:
    """Return the seconds of a round, None without a limit; raises UserMistake `session_minutes`."""
    if not text.strip():
        return None
    return _number(text, most=MAX_MINUTES, problem="session_minutes") * MINUTE


def read_quota(text: str) -> int:
    """Return how many pictures a person may have in a round; raises UserMistake `session_pictures`."""
    return _number(text, most=MAX_QUOTA, problem="session_pictures")


def _number(text: str, *, most: int, problem: str) -> int:
    digits = text.strip()
    number = int(digits) if digits.isdecimal() and len(digits) <= 5 else 0  # digits of any script
    if not 1 <= number <= most:
        raise UserMistake(problem, value=digits, limit=most)
    return number
