"""The sentences for people, in their language.

The English form of a sentence is its message id in the gettext catalogues of `bot/locales`. It has named
fields for details: `texts.gettext("Queued, {place}.", place=…)`. `MISTAKES` has the sentence of
each `UserMistake`; `InvalidRequest` has its own sentences.
"""

from __future__ import annotations

import functools
import io
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from importlib import resources

from babel import Locale
from babel.dates import format_timedelta
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import Translations

from bot.domain.errors import BotError, SeveralMistakes, StoreUnavailable, UserMistake
from bot.texts.mistakes import MISTAKES
from sdjax_engine.errors import InvalidRequest

LANGUAGES = ("en", "ko", "zh", "ar")


_ISOLATE = "\N{FIRST STRONG ISOLATE}{}\N{POP DIRECTIONAL ISOLATE}"
_RTL_CLASSES = ("R", "AL", "AN")  # bidirectional classes of letters and digits that run from right to left
_RTL_MARK = "\N{RIGHT-TO-LEFT MARK}"
SEPARATOR = " · "


class Moment(float):
    """A time in seconds since the epoch that Discord shows in the reader's language, such as `in 3 hours`."""

    def __str__(self) -> str:
        return f"<t:{int(self)}:R>"


class Texts:
    """The sentences of one language; `is_rtl` is true for one that is written from right to left."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._locale = Locale.parse(language)
        self.is_rtl = self._locale.text_direction == "rtl"
        self._catalogue = _catalogue(language)

    @classmethod
    def for_locale(cls, locale: str) -> Texts:
        """Return the texts for a locale as Discord names it (`ko`, `zh-TW`, …), by default English."""
        language = locale.replace("_", "-").partition("-")[0].lower()
        return _texts(language if language in LANGUAGES else "en")

    def gettext(self, message: str, **details: object) -> str:
        """Return the translation of `message`, with `details` in its fields."""
        return self._filled(self._catalogue.gettext(message), details)

    def pgettext(self, context: str, message: str, **details: object) -> str:
        """Like `gettext`, for a word with several meanings."""
        translated = self._catalogue.pgettext(context, message)
        return self._filled(str(translated), details)

    def ngettext(self, singular: str, plural: str, count: int, **details: object) -> str:
        """Return the plural form for `count`, which also fills the field `{count}`."""
        return self._filled(self._catalogue.ngettext(singular, plural, count), {"count": count, **details})

    def isolated(self, value: object) -> str:
        """Return `value`, a name or a person's words, isolated from the direction of the sentence."""
        # Without isolation, Latin words and numbers move the punctuation beside them to the wrong side of an
        # Arabic sentence, and Arabic words do so in a Latin sentence.
        text = str(value)
        if self.is_rtl or any(unicodedata.bidirectional(letter) in _RTL_CLASSES for letter in text):
            return _ISOLATE.format(text)
        return text

    def joined(self, parts: Iterable[object]) -> str:
        """Return the parts on one line, with separators."""
        return SEPARATOR.join(self.isolated(part) for part in parts)

    def line(self, text: str, *, mark: str = "") -> str:
        """Return Markdown's `mark` and a line in the direction of the language, whatever its first letter."""
        return f"{mark}{_RTL_MARK if self.is_rtl else ''}{text}"

    def ordinal(self, number: int) -> str:
        """Return an ordinal: `1st`, `2nd`, `3번째`, `第4位`."""
        form = self._locale.ordinal_form(number)
        if form == "one":
            return self.pgettext("ordinal", "{number}st", number=number)
        if form == "two":
            return self.pgettext("ordinal", "{number}nd", number=number)
        if form == "few":
            return self.pgettext("ordinal", "{number}rd", number=number)
        return self.pgettext("ordinal", "{number}th", number=number)

    def duration(self, seconds: float) -> str:
        """Return a rounded estimate of a duration: `12 s`, `45 s`, `4 min`, `2 h`."""
        whole = max(1, round(seconds))
        if whole < 90:
            return self.gettext("{count} s", count=whole if whole < 20 else 5 * round(whole / 5))
        if whole < 90 * 60:
            return self.gettext("{count} min", count=round(whole / 60))
        return self.gettext("{count} h", count=round(whole / 3600))

    def age(self, seconds: float) -> str:
        """Return an age such as `3 minutes ago`."""
        past = timedelta(seconds=-max(1.0, seconds))
        return format_timedelta(past, add_direction=True, locale=self._locale)

    def mistake(self, error: InvalidRequest | BotError, *, tell: Callable[[object], object] = str) -> str:
        """Return the sentence for a person whose request was refused; `tell` escapes its details."""
        details = {
            name: value if isinstance(value, Moment) else tell(value)
            for name, value in getattr(error, "details", {}).items()
        }
        if isinstance(error, SeveralMistakes):
            return "\n".join(
                self.line(self.mistake(one, tell=tell), mark="- ")
                for one in error.mistakes
                if isinstance(one, InvalidRequest | BotError)
            )
        if isinstance(error, InvalidRequest):
            return self.gettext(InvalidRequest.SENTENCES[error.problem], **details)
        if isinstance(error, UserMistake):
            sentence = MISTAKES.get(error.message_id, MISTAKES["user_mistake"])
            said = [
                self.gettext(sentence, **details),
                *(self.mistake(one, tell=tell) for one in error.further),
            ]
            return " ".join(said)
        if isinstance(error, StoreUnavailable):
            return self.gettext(MISTAKES["store_unavailable"])
        return self.gettext(MISTAKES["user_mistake"])

    def _filled(self, sentence: str, details: Mapping[str, object]) -> str:
        fields = {name: self.isolated(value) for name, value in details.items()}
        return sentence.format(**fields) if fields else sentence


@functools.cache
def _texts(language: str) -> Texts:
    return Texts(language)


@functools.cache
def _catalogue(language: str) -> Translations:
    """Return the catalogue, compiled in memory at its first use."""
    path = resources.files("bot") / "locales" / language / "LC_MESSAGES" / "bot.po"
    compiled = io.BytesIO()
    with path.open("rb") as file:
        write_mo(compiled, read_po(file, locale=language, domain="bot"))
    compiled.seek(0)
    return Translations(compiled, domain="bot")
