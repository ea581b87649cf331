"""Removes secrets from messages: passwords in addresses, tokens and private keys."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "…"
_LOGIN = re.compile(r"(?<=://)[^\s/?#@]*@")
# A password may contain unescaped /, ? or #, which end a host: everything up to the last @ is removed.
_UNESCAPED_LOGIN = re.compile(r"(?<=://)[^\s'\"“”@/]*:(?!\d{1,5}/)[^\s'\"“”]*@")
_WORD = re.compile(r"[^\s'\"“”]+")
_PASSWORD = re.compile(r"(?i)(?<=[?&])((?:pass(?:word|wd)?|secret|token|key)=)[^\s&#'\"“”]+")
_BOT_TOKEN = re.compile(r"(?<![\w-])[\w-]{18,}\.[\w-]{5,}\.[\w-]{25,}(?![\w-])")
_HUB_TOKEN = re.compile(r"(?<![\w-])hf_[A-Za-z0-9]{20,}")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*-----END [A-Z ]*PRIVATE KEY-----|.*)", re.S
)
_INTERACTION_TOKEN = re.compile(r"(/(?:webhooks|interactions)/\d+/)[\w.~%-]+")


def redact(text: str) -> str:
    """Return `text` without logins in addresses, tokens of Discord and Hugging Face, and private keys."""
    text = _WORD.sub(_without_unescaped_login, text)
    text = _LOGIN.sub(f"{HIDDEN}@", text)
    text = _PASSWORD.sub(rf"\1{HIDDEN}", text)
    for secret in (_BOT_TOKEN, _HUB_TOKEN, _PRIVATE_KEY):
        text = secret.sub(HIDDEN, text)
    return _INTERACTION_TOKEN.sub(rf"\1{HIDDEN}", text)


def _without_unescaped_login(word: re.Match[str]) -> str:
    # After the last @ is no login. A search there would begin at each :// and read the word to its end.
    before, last, after = word[0].rpartition("@")
    return _UNESCAPED_LOGIN.sub(f"{HIDDEN}@", before + last) + after
