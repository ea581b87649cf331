"""Reads tokens from files. No error message contains a token."""

from __future__ import annotations

import re
from pathlib import Path

from bot.errors import ConfigurationError
from bot.redaction import redact

MAX_FILE_NAME = 40  # characters of a name without a folder; a token is longer


def read_token_file(file: str, *, key: str) -> str:
    """Return the token in `file`, the value of the configuration's `key`; raises ConfigurationError."""
    _refuse_pasted_token(file, key)
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise ConfigurationError(f"{key}: the token file {file} cannot be read: {reason}.") from None
    if not token:
        raise ConfigurationError(f"{key}: the token file {file} is empty.")
    return checked_token(token, f"the token file {file}")


def checked_token(token: str, source: str) -> str:
    """Return `token` if it is valid in an HTTP header; raises ConfigurationError."""
    if not re.fullmatch(r"[!-~]+", token):
        raise ConfigurationError(f"What {source} holds is not a token: a token is one word of Latin letters.")
    return token


def _refuse_pasted_token(file: str, key: str) -> None:
    long_word = len(file) > MAX_FILE_NAME and "/" not in file
    if redact(file) != file or (long_word and not Path(file).exists()):
        raise ConfigurationError(
            f"{key} holds what looks like the token itself: write it into a file of its own, "
            "and the name of that file here."
        )
