"""The values of policies as people read and type them; no Discord here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from types import MappingProxyType
from typing import Any

from bot.domain.channels import FLAGGED_KEYS
from bot.domain.errors import UserMistake
from bot.front.recipes.options import clean, echo, number_text
from bot.moderation.generosity import ANY, NO_LIMIT, Privacy, Treatment
from bot.texts.catalogue import Texts
from bot.texts.markup import shown
from sdjax_engine.request import Offer

SHOWN_NAMES = 300
NOTHING, NO_LIMIT_SIGN = "", "-"
WHO, PICTURES, QUOTAS, MORE = "who", "pictures", "quotas", "more"
FLAGGED = tuple(FLAGGED_KEYS.values())
GROUPS = MappingProxyType(
    {
        WHO: ("paint", "start_pictures", "private", "previews", "review"),
        PICTURES: ("models", "pixels", "steps", "variants", "loras"),
        QUOTAS: ("pictures_per_hour", "pictures_per_day", "cost_per_hour", "cost_per_day", "cool_down"),
        MORE: ("weight", "language", *FLAGGED),
    }
)
"""The keys of a policy in groups of at most five: a form has no more parts."""
LANGUAGE_NAMES = MappingProxyType({"en": "English", "ko": "한국어", "zh": "中文", "ar": "العربية"})
LEVELS = tuple(combinations_with_replacement(Treatment, 3))  # a higher level is never treated more mildly
SWITCHES = ("paint", "start_pictures", "previews", "review")
NAMES = ("models", "loras")
_BOUNDS = MappingProxyType(
    {
        "steps": (1, 1000),
        "variants": (1, 9),
        "pictures_per_hour": (0, 100_000),
        "pictures_per_day": (0, 100_000),
        "cost_per_hour": (0, 100_000),
        "cost_per_day": (0, 100_000),
        "cool_down": (0, 86_400),
        "weight": (0.01, 100),
    }
)
_WHOLE = ("steps", "variants", "pictures_per_hour", "pictures_per_day")


def key_name(key: str, texts: Texts) -> str:
    """Return the name of a policy's key."""
    names = {
        "paint": texts.gettext("May paint"),
        "models": texts.gettext("Models"),
        "pixels": texts.gettext("Largest size"),
        "steps": texts.gettext("Most steps"),
        "variants": texts.gettext("Most pictures at once"),
        "loras": texts.gettext("LoRAs"),
        "start_pictures": texts.gettext("Start from pictures"),
        "private": texts.gettext("Private results"),
        "previews": texts.gettext("Previews"),
        "review": texts.gettext("Moderators look first"),
        "flagged": texts.gettext("Unsafe pictures"),
        "flagged_spoiler": texts.gettext("Unsafe pictures, spoiler channels"),
        "flagged_age_restricted": texts.gettext("Unsafe pictures, age-restricted"),
        "pictures_per_hour": texts.gettext("Pictures an hour"),
        "pictures_per_day": texts.gettext("Pictures a day"),
        "cost_per_hour": texts.gettext("Hourly cost, in standard pictures"),
        "cost_per_day": texts.gettext("Daily cost, in standard pictures"),
        "cool_down": texts.gettext("Seconds between requests"),
        "weight": texts.gettext("Weight in the queue"),
    }
    return names.get(key) or texts.gettext("Language for all")


def value_text(key: str, value: Any, texts: Texts) -> str:
    """Return a value of a policy for people."""
    if key in SWITCHES:
        return texts.gettext("yes") if value else texts.gettext("no")
    if key in FLAGGED:
        return levels_text(value, texts)
    if key in NAMES:
        named = shown(", ".join(value), SHOWN_NAMES) or texts.gettext("none of them")
        return texts.gettext("all of them") if ANY in value else named
    if key == "private":
        return privacy_text(value, texts)
    if key == "language":
        return LANGUAGE_NAMES.get(value, value)
    if value == NO_LIMIT:
        return texts.gettext("no limit")
    return typed_text(key, value)


def privacy_text(value: Privacy, texts: Texts) -> str:
    """Return who decides whether a result is private."""
    if value is Privacy.FREE:
        return texts.gettext("as people choose")
    return texts.gettext("always") if value is Privacy.ALWAYS else texts.gettext("never")


def levels_text(levels: Sequence[Treatment], texts: Texts) -> str:
    """Return how pictures of the levels 1, 2 and 3 are treated."""
    words = {
        Treatment.SHOW: texts.gettext("shown"),
        Treatment.SPOILER: texts.gettext("behind a spoiler"),
        Treatment.HOLD: texts.gettext("held for moderators"),
        Treatment.WITHHOLD: texts.gettext("withheld"),
    }
    return ", ".join(f"{number} {words[level]}" for number, level in enumerate(levels, start=1))


def typed_text(key: str, value: Any) -> str:
    """Return a value as it is typed into a form; empty for a key without a value."""
    if value is None:
        return NOTHING
    if key in NAMES:
        return ", ".join(value) or NO_LIMIT_SIGN
    if value == NO_LIMIT:
        return NO_LIMIT_SIGN
    if key == "pixels":
        side = math.isqrt(int(value))
        return f"{side}x{side}" if side * side == value else str(int(value))
    return number_text(value)


def choices_of(key: str, texts: Texts) -> list[tuple[str, Any]]:
    """Return the choices of a key that is chosen from a menu, the empty one first."""
    nothing: tuple[str, Any] = (texts.gettext("Not set here"), None)
    return [nothing, *((value_text(key, value, texts), value) for value in _values(key))]


def _values(key: str) -> Iterator[Any]:
    if key in SWITCHES:
        yield from (True, False)
    elif key == "private":
        yield from Privacy
    elif key == "language":
        yield from LANGUAGE_NAMES
    else:
        yield from LEVELS


def is_chosen(key: str) -> bool:
    """Return whether a key is chosen from a menu; all others are typed."""
    return key in (*SWITCHES, *FLAGGED, "private", "language")


def read_value(key: str, text: str, offers: Sequence[Offer], texts: Texts) -> Any:
    """Return the value that was typed or chosen for a key, None for nothing; raises UserMistake."""
    text = clean(text).strip()
    if is_chosen(key):
        choices = choices_of(key, texts)
        return choices[int(text)][1] if text.isdecimal() and int(text) < len(choices) else None
    if not text:
        return None
    if key in NAMES:
        return _read_names(key, text, offers)
    if text == NO_LIMIT_SIGN:
        return 0.0 if key == "cool_down" else NO_LIMIT if key != "weight" else None
    return _read_pixels(text) if key == "pixels" else _read_number(key, text, texts)


def _read_names(key: str, text: str, offers: Sequence[Offer]) -> tuple[str, ...]:
    if text == ANY:
        return (ANY,)
    if text == NO_LIMIT_SIGN and key == "loras":
        return ()
    offered = [offer.model for offer in offers]
    if key == "loras":
        offered = list(dict.fromkeys(name for offer in offers for name in offer.loras))
    known = {name.casefold(): name for name in offered}
    found: dict[str, None] = {}
    for part in [part.strip() for part in text.split(",") if part.strip()] or [text]:
        if part.casefold() not in known:
            raise UserMistake("policy_unknown", value=echo(part), choices=", ".join(offered[:10]) or "-")
        found[known[part.casefold()]] = None
    return tuple(found)


def _read_pixels(text: str) -> int:
    sides = re.fullmatch(r"([0-9]{1,5})\s*[x×*]\s*([0-9]{1,5})", text.casefold())
    if sides and (pixels := int(sides[1]) * int(sides[2])):
        return pixels
    if re.fullmatch(r"[0-9]{3,9}", text) and int(text):
        return int(text)
    raise UserMistake("policy_pixels", value=echo(text))


def _read_number(key: str, text: str, texts: Texts) -> float:
    least, most = _BOUNDS[key]
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        number = math.nan
    whole = key not in _WHOLE or number == int(number) if math.isfinite(number) else False
    if not (whole and least <= number <= most):
        name = key_name(key, texts)
        raise UserMistake("policy_number", value=echo(text), name=name, least=f"{least:g}", limit=f"{most:g}")
    return number
