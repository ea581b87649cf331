"""Messages without secrets: what addresses and files hold that nobody may read in a terminal or a log."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "…"
_LOGIN = re.compile(r"(?<=://)[^\s/?#@]*@")
# A password may hold what ends a host, though it should not: then all up to the last @ goes.
_CARELESS_LOGIN = re.compile(r"(?<=://)[^\s'\"“”@/]*:(?!\d{1,5}/)[^\s'\"“”]*@")
_PASSWORD = re.compile(r"(?i)(?<=[?&])((?:pass(?:word|wd)?|secret|token|key)=)[^\s&#'\"“”]+")
_BOT_TOKEN = re.compile(r"(?<![\w-])[\w-]{18,}\.[\w-]{5,}\.[\w-]{25,}(?![\w-])")
_INTERACTION_TOKEN = re.compile(r"(/(?:webhooks|interactions)/\d+/)[\w.~%-]+")


def discreet(text: str) -> str:
    """`text` without the logins of addresses and without what looks like a token of Discord's."""
    text = _CARELESS_LOGIN.sub(f"{HIDDEN}@", text)
    text = _LOGIN.sub(f"{HIDDEN}@", text)
    text = _PASSWORD.sub(rf"\1{HIDDEN}", text)
    text = _BOT_TOKEN.sub(HIDDEN, text)
    return _INTERACTION_TOKEN.sub(rf"\1{HIDDEN}", text)
