"""Reads tokens from files. No error message contains a token."""

from __future__ import annotations

import re
from pathlib import Path

from bot.config.mistakes import is_pasted, quoted
from bot.errors import ConfigurationError
from bot.redaction import redact


def read_token_file(file: str, *, key: str) -> str:
    """Return the token in `file`, the value of the configuration's `key`; raises ConfigurationError."""
    if redact(file) != file:
        raise _pasted(key)
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        if is_pasted(file, error):
            raise _pasted(key) from None
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise ConfigurationError(f"{key}: the token file {quoted(file)} cannot be read: {reason}.") from None
    if not token:
        raise ConfigurationError(f"{key}: the token file {quoted(file)} is empty.")
    return checked_token(token, f"{key}: what the token file {quoted(file)} holds")


def checked_token(token: str, source: str) -> str:
    """Return `token` if it is valid in an HTTP header; raises ConfigurationError."""
    if not re.fullmatch(r"[!-~]+", token):
        raise ConfigurationError(f"{source} is not a token: a token is one word of Latin letters.")
    return token


def _pasted(key: str) -> ConfigurationError:
    return ConfigurationError(
        f"{key}: there is no such file. If this is the token itself, write it into a file of its own, and "
        "the name of that file here."
    )
