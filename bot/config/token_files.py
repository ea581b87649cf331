"""Reads tokens from files. No error message contains a token."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from bot.config.mistakes import quoted
from bot.errors import ConfigurationError
from bot.redaction import redact

MAX_FILE_NAME = 40  # characters of a name without a folder; a token is longer


def read_token_file(file: str, *, key: str) -> str:
    """Return the token in `file`, the value of the configuration's `key`; raises ConfigurationError."""
    if redact(file) != file:
        raise _pasted(key)
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        is_no_file = getattr(error, "errno", None) in (errno.ENOENT, errno.ENAMETOOLONG)
        if is_no_file and len(file) > MAX_FILE_NAME and "/" not in file:
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
        f"{key}: this looks like the token itself: write it into a file of its own, and the name of "
        "that file here."
    )
