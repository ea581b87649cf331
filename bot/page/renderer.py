"""Renders views in a person's language. What several viewers look at is read and rendered once."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from bot.page.house import House
from bot.page.rights import Right
from bot.texts.catalogue import LANGUAGES, Texts
from sdjax_engine.errors import in_bytes

MOST_KEPT = 64
SHORT_SECONDS = 100  # longer ages are rounded to ten seconds
STILL_SECONDS = 5.0  # after which a view is made again without a change: ages grow, processes expire
CHEAP_SECONDS, LONGEST = 0.02, 6.0
"""A view that takes n times CHEAP_SECONDS to read is shown n times as long, at most LONGEST times."""

Read = Callable[[House, Mapping[str, str]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class View:
    """One view: its name, its template is `NAME.html`; `keys` of the address are passed on to `read`.

    Who may see it has its `right`. Where that reaches a part only, `keys` has what keeps the view to it.

    What it read is shown for `fresh_seconds`: longer where many rows are read, and where that took long. It
    is read again after a change of the database, and every STILL_SECONDS.
    """

    name: str
    read: Read
    right: Right
    keys: tuple[str, ...] = ()
    fresh_seconds: float = 0.7


class Fragment:
    """The middle of a page: its `html`, and the `event` that sends it to a stream of events."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.made_at, self.took = -math.inf, 0.0
        self.revisions: tuple[object, object] = None, None
        self.html, self.event = "", b""

    def show(self, html: str) -> None:
        """Hold this HTML; the event stays the same object while the HTML is equal."""
        if html != self.html:
            self.html, self.event = html, event_of(html)


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
        self._fragments: dict[tuple[str, str, tuple[tuple[str, str], ...]], Fragment] = {}

    async def fragment(self, view: View, query: Mapping[str, str], language: str) -> Fragment:
        """Return the middle of a page as it is now; raises StoreUnavailable, HTTPNotFound."""
        asked = {key: query[key] for key in view.keys if query.get(key)}
        key = view.name, language, tuple(asked.items())
        fragment = self._fragments.setdefault(key, Fragment())
        try:
            async with fragment.lock:
                if await self._is_old(fragment, view):
                    began = self._clock()
                    facts = await view.read(self._house, asked)
                    fragment.show(self.render(f"{view.name}.html", language, **facts))
                    fragment.made_at = self._clock()
                    fragment.took = fragment.made_at - began
        finally:
            self._forget()
        return fragment

    async def _is_old(self, fragment: Fragment, view: View) -> bool:
        age = self._clock() - fragment.made_at
        if age < view.fresh_seconds * min(LONGEST, max(1.0, fragment.took / CHEAP_SECONDS)):
            return False
        revision = await self._house.store.revision()
        # SQLite's files change a moment before others can read what has changed: it is read once more.
        is_settled = fragment.revisions == (revision, revision)
        fragment.revisions = fragment.revisions[1], revision
        return not is_settled or age >= STILL_SECONDS

    def render(self, template: str, language: str, **facts: Any) -> str:
        """Return a template filled with facts."""
        texts = Texts.for_locale(language)
        now = self._house.now
        words = {"gettext": texts.gettext, "ngettext": texts.ngettext, "pgettext": texts.pgettext}
        helpers = {
            "texts": texts,
            "ago": lambda at: _time(texts, at, now),
            "moment": _moment,
            "in_bytes": in_bytes,
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


def event_of(html: str) -> bytes:
    """Return the event of a stream that shows this HTML."""
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"{lines}\n".encode()


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
    exact = datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="seconds")
    seconds = max(1, int(now - at))
    age = _age(texts.language, seconds if seconds < SHORT_SECONDS else seconds // 10 * 10)
    return Markup(f'<time datetime="{exact}" title="{_moment(at)}">{age}</time>')  # noqa: S704 - all is escaped


@lru_cache(maxsize=2000)
def _age(language: str, seconds: int) -> Markup:
    """Return an age in words, escaped; kept, because making it takes as long as the rest of a row."""
    return escape(Texts.for_locale(language).age(seconds))
