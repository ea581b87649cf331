"""Renders views in a person's language. What several viewers look at is read and rendered once."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bot.page.house import House
from bot.page.rights import Right
from bot.texts.catalogue import LANGUAGES, Texts

MOST_KEPT = 64

Read = Callable[[House, Mapping[str, str]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class View:
    """One view: its name, its template is `NAME.html`; `keys` of the address are passed on to `read`.

    Who may see it has its `right`. Where that reaches a part only, `keys` has what keeps the view to it.

    What it read is shown for `fresh_seconds`: longer where many rows are read.
    """

    name: str
    read: Read
    right: Right
    keys: tuple[str, ...] = ()
    fresh_seconds: float = 1.0


@dataclass(kw_only=True)
class _Fragment:
    lock: asyncio.Lock
    made_at: float = -math.inf
    html: str = ""


class Renderer:
    """Makes pages of views; `clock` is monotonic."""

    def __init__(self, house: House, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._house = house
        self._clock = clock
        self._templates = Environment(
            loader=PackageLoader("bot.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._fragments: dict[tuple[str, str, tuple[tuple[str, str], ...]], _Fragment] = {}

    async def fragment(self, view: View, query: Mapping[str, str], language: str) -> str:
        """Return the middle of a page, at most `fresh_seconds` old; raises StoreUnavailable, HTTPNotFound."""
        asked = {key: query[key] for key in view.keys if query.get(key)}
        key = view.name, language, tuple(asked.items())
        fragment = self._fragments.setdefault(key, _Fragment(lock=asyncio.Lock()))
        try:
            async with fragment.lock:
                if self._clock() - fragment.made_at >= view.fresh_seconds:
                    facts = await view.read(self._house, asked)
                    fragment.html = self.render(f"{view.name}.html", language, **facts)
                    fragment.made_at = self._clock()
        finally:
            self._forget()
        return fragment.html

    def render(self, template: str, language: str, **facts: Any) -> str:
        """Return a template filled with facts."""
        texts = Texts.for_locale(language)
        now = self._house.now
        words = {
            "texts": texts,
            "gettext": texts.gettext,
            "ngettext": texts.ngettext,
            "pgettext": texts.pgettext,
        }
        helpers = {
            "ago": lambda at: _time(texts, at, now),
            "moment": _moment,
            "now": now,
            "language": language,
        }
        return self._templates.get_template(template).render(**words, **helpers, **facts)

    def forget_all(self) -> None:
        """Read everything again: somebody has changed something and looks at it."""
        self._fragments.clear()

    def _forget(self) -> None:
        """Forget the fragments that nobody has asked for lately."""
        if len(self._fragments) > MOST_KEPT:
            oldest = sorted(self._fragments, key=lambda key: self._fragments[key].made_at)
            for key in oldest[: MOST_KEPT // 2]:
                if not self._fragments[key].lock.locked():
                    del self._fragments[key]


def language_of(accepted: str, chosen: str = "") -> str:
    """Return the language of a browser: the chosen one, or the first that we have of an Accept-Language."""
    if chosen in LANGUAGES:
        return chosen
    for each in accepted[:200].split(","):
        language = each.partition(";")[0].strip().partition("-")[0].lower()
        if language in LANGUAGES:
            return language
    return LANGUAGES[0]


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _time(texts: Texts, at: float, now: float) -> Markup:
    """Return an age such as “3 minutes ago”, with the time itself for machines and on hover."""
    exact = _moment(at)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"), exact, texts.age(max(1.0, now - at))
    )
