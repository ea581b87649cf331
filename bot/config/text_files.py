"""Reads the text files that an operator writes, and tokens from files. No error message contains a token."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from bot.config.mistakes import is_pasted, quoted
from bot.domain.errors import ConfigurationError
from bot.telemetry.redaction import redact

_OTHERS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BEGINNING = 64  # bytes: half of those of a text in UTF-16 without a mark are null


def read_text_file(file: str | Path) -> str:
    """Return the text of a file in UTF-8, without its byte order mark.

    Line ends stay as they are. Raises OSError, and ValueError with what to do for another encoding.
    """
    data = Path(file).read_bytes()
    nulls = data[:_BEGINNING].count(0)
    if data.startswith(_OTHERS) or (nulls > 1 and 2 * nulls >= len(data[:_BEGINNING]) - 1):
        raise ValueError("it is not a text in UTF-8 but looks like UTF-16: save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not a text in UTF-8 (byte {error.start + 1}): save it as UTF-8") from None


_NAMED = re.compile(r"(?:export\s+)?[A-Z_]*TOKEN\s*=\s*(.*)")


def read_token_file(file: str, *, key: str) -> str:
    """Return the token in `file`, the value of the configuration's `key`; raises ConfigurationError."""
    return _checked(_held(file, key), _source(file, key))


def read_discord_token_file(file: str, *, key: str) -> str:
    """Return the token in `file` as `discord_token` does; raises ConfigurationError."""
    return discord_token(_held(file, key), _source(file, key))


def discord_token(text: str, source: str) -> str:
    """Return the bot's token in `text`; raises ConfigurationError, which names the `source`.

    A byte order mark, the name of a variable, quotes and the word “Bot” around the token are left out.
    """
    token = text.strip("\ufeff \t\r\n")
    if named := _NAMED.fullmatch(token):
        token = named[1]
    if len(token) > 1 and token[0] == token[-1] and token[0] in "\"'":
        token = token[1:-1]
    token = _checked(token.removeprefix("Bot "), source)
    if not re.fullmatch(r"[\w.-]+", token, re.ASCII):
        raise ConfigurationError(
            f"{source} is not a token: a token has only Latin letters, digits, dots, dashes and underscores."
        )
    return token


def _checked(token: str, source: str) -> str:
    if not re.fullmatch(r"[!-~]+", token):
        raise ConfigurationError(f"{source} is not a token: a token is one word of Latin letters.")
    return token


def _source(file: str, key: str) -> str:
    return f"{key}: what the token file {quoted(file)} holds"


def _held(file: str, key: str) -> str:
    if redact(file) != file:
        raise _pasted(key)
    try:
        text = read_text_file(file).strip()
    except (OSError, ValueError) as error:
        if is_pasted(file, error):
            raise _pasted(key) from None
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{key}: the token file {quoted(file)} cannot be read: {reason}.") from None
    if not text:
        raise ConfigurationError(f"{key}: the token file {quoted(file)} is empty.")
    return text


def _pasted(key: str) -> ConfigurationError:
    return ConfigurationError(
        f"{key}: there is no such file. If this is the token itself, write it into a file of its own, and "
        "the name of that file here."
    )
