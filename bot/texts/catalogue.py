"""The sentences for people, in their language.

The English form of a sentence is its message id in the gettext catalogues of `bot/locales`. It has named
fields for details: `texts.gettext("Queued, {place}.", place=…)`. `MISTAKES` has the sentence of each
`UserMistake`; `InvalidRequest` has its own sentences.

`shown` makes people's words safe within a sentence: on one line, without markup, mentions, or characters
that hide other characters.
"""

from __future__ import annotations

import functools
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from importlib import resources
from itertools import groupby
from types import MappingProxyType

import regex
from babel import Locale
from babel.dates import format_timedelta
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import Translations

from bot.domain.errors import BotError, SeveralMistakes, StoreUnavailable, UserMistake
from bot.texts import policy_mistakes
from bot.texts.known_mistakes import KNOWN_MISTAKES
from bot.texts.review_mistakes import REVIEW_MISTAKES
from bot.texts.session_mistakes import SESSION_MISTAKES
from sdjax_engine.errors import InvalidRequest

LANGUAGES = ("en", "ko", "zh", "ar")

MARKS_IN_A_ROW = 4  # no letter of a script in use today has more combining marks
INVISIBLE_IN_A_ROW = 2  # a joined emoji has a variation selector and a joiner

_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")  # change the direction of the text after them
_BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # letters and marks that are not visible
_LINK = re.compile(r"(?i)(?<=[a-z0-9+.]):(?=//)")
_MARKUP = re.compile(r"[\\*_~`|<\[\]]")
_FIRST = re.compile(r"^(?:[>#+-]|\d{1,9}(?=[.)](?:\s|$)))")
_EVERYBODY = re.compile(r"@(?=everyone|here)")
_LETTER = regex.compile(r"\X")  # with its marks; an emoji with all that is joined to it

MISTAKES: Mapping[str, str] = MappingProxyType(
    {
        "user_mistake": "That is not possible.",
        "unknown_job": "The bot does not have this picture, or no longer has it.",
        "newer_request": "This has settings of a newer version of the bot: try again in a few minutes.",
        "stopping": "The bot is being restarted and could not finish this: try it again in a minute.",
        "not_yours": "Only the person who asked for this picture, or a moderator, can do that.",
        "already_ended": "This has already ended: there is nothing left to cancel.",
        "nothing_to_cancel": "You have no requests that are waiting or being painted.",
        "size_or_aspect": (
            "“{value}” is neither a size, width x height, nor a shape such as 3:2: choose from {choices}."
        ),
        "strength_alone": "Strength is how much to change a picture: send that picture too.",
        "picture_heavy": "{what} is larger than {limit} MB: send a smaller file.",
        "picture_large": "{what} has more than {limit} million pixels: send a smaller picture.",
        "picture_small": (
            "{what} is too small to start from: send a picture of at least {limit} pixels a side."
        ),
        "picture_thin": "{what} is too thin: its longer side may be at most {limit} times its shorter side.",
        "picture_gone": "{what} is no longer on Discord: send it again.",
        "picture_unreachable": "{what} could not be fetched from Discord: please send it again in a minute.",
        "picture_costly": "{what} takes too much time or memory to read: send a smaller picture.",
        "files_busy": "Many pictures are being read right now: please send yours again in a minute.",
        "too_quick": "You are going too fast: please try again in {seconds} s.",
        "server_too_quick": "This server is going too fast: please try again in {seconds} s.",
        "files_too_quick": (
            "You have sent many pictures in a short time: please send this one again in {seconds} s."
        ),
        "server_files_too_quick": (
            "This server has sent many pictures in a short time: please send yours again in {seconds} s."
        ),
        "no_larger_size": "{model} paints no larger picture of this shape.",
        "hires": (
            "“{value}” is not a second pass: write a larger size, optionally with a strength and steps, "
            "such as 1024x1024 0.5 15. Sizes: {choices}."
        ),
        "rule_automod": (
            "The AutoMod rule “{rule}” of this server does not allow this: change the words and ask again."
        ),
        "rule_refused": (
            "The rule “{rule}” of this server does not allow this: change the words and ask again."
        ),
        "judging_rule": (
            "Checking this against the rule “{rule}” of this server takes too long: shorten it, or tell a "
            "moderator."
        ),
        "judging_long": "Checking this takes too long: shorten it and ask again.",
        "rule_always": "Sexual content with minors is never painted here: change the words.",
        "rule_name": (
            "A rule's name has 1 to {limit} characters, all of which can be seen: choose another name."
        ),
        "rule_terms": (
            "A rule has 1 to {limit} words or phrases, one a line, of up to {characters} characters each: "
            "change them."
        ),
        "rule_slow": (
            "With these words, checking a prompt would take too long: leave out words that differ only in "
            "repeated letters, or shorten long phrases."
        ),
        "rule_none": "There is no rule “{value}”, as there are no rules here yet.",
        "rule_unknown": "There is no rule “{value}” here: choose from {choices}.",
        "rules_full": "A server can have at most {limit} rules: remove one first.",
        "settings_no_server": (
            "Only servers with the bot have channel and server settings: change your own here."
        ),
        "settings_channel_right": "You need Manage Channels to change this channel's settings: change yours.",
        "settings_server_right": "You need Manage Server to change this server's settings: change your own.",
        "settings_name": "“{value}” is not a setting: choose from {choices}, separated by commas.",
        "settings_switch": "The setting {name} is on or off, not “{value}”: type one of the two.",
        "settings_number": "The setting {name} takes a number, not “{value}”: type one.",
        "style_name": (
            "A style's name has 1 to {limit} characters, all of which can be seen: choose another name."
        ),
        "style_text": "A style's text may have {limit} characters, and this has {count}: shorten it.",
        "style_example": (
            "The example is the link of a message of this server, or the id of a result here: copy it again."
        ),
        "style_none": "There is no style “{value}”, as there are no styles here yet: leave the style out.",
        "style_unknown": "There is no style “{value}” here: choose from {choices}.",
        "style_of_all": "Every server has this style: the bot's owner can remove it.",
        "styles_full": "A server can have at most {limit} styles: remove one first.",
        "kept_no_server": "Styles and lists belong to a server: use the command in a server.",
        "kept_right": "You need the permission Manage Messages to change styles and lists: ask a moderator.",
        "wildcard_name": (
            "A list's name has 1 to {limit} characters, without spaces, commas and braces: "
            "choose another name."
        ),
        "wildcard_entries": (
            "A list has 1 to {limit} entries, one a line, of up to {characters} characters each: change it."
        ),
        "wildcard_none": (
            "There is no list “{value}”, as there are no lists here yet: leave its underscores out, or "
            "write `\\_` for each."
        ),
        "wildcard_unknown": (
            "There is no list “{value}” here: choose from {choices}, or write `\\_` for an underscore."
        ),
        "wildcards_full": "A server can have at most {limit} lists: remove one first.",
        "expansion_deep": "Braces can be nested {limit} deep: remove some.",
        "expansion_many": (
            "These alternatives make {value} prompts, and you may ask for {limit} at once: leave some out."
        ),
        "expansion_image": (
            "With a picture to start from, one prompt is painted at a time: "
            "leave the alternatives in braces out."
        ),
        "generation_data_none": (
            "This holds no generation data: copy all of the text that A1111, Civitai, ComfyUI or InvokeAI "
            "shows for a picture."
        ),
        "generation_data_no_file": (
            "This file holds no generation data: choose the original file, or paste the text."
        ),
        "generation_data_long": (
            "This generation data is longer than {limit} kB: paste only what belongs to one picture."
        ),
        "generation_data_damaged": "This generation data is incomplete or damaged: copy all of it again.",
        "generation_data_version": (
            "This picture's recipe is of a later version of the bot: type its settings instead."
        ),
        "generation_data_graph": (
            "This ComfyUI workflow has no single path from a prompt to a picture: type its prompt and "
            "settings instead."
        ),
        "recipe_none": (
            "This message does not say how a picture was painted: choose one with generation data in its "
            "text, or with an original picture or workflow file."
        ),
        "recipe_none_in_files": (
            "Neither this message nor its first {count} files say how a picture was painted: choose "
            "another message."
        ),
        "message_no_picture": (
            "This message has no picture to paint from: choose one with a PNG, JPEG, WebP or GIF picture."
        ),
        "message_file_gone": "{what} is no longer on Discord: choose another message.",
        "message_file_unreachable": (
            "{what} could not be fetched from Discord: "
            "please choose the menu of the message again in a minute."
        ),
        "words_forgotten": (
            "The bot no longer has what you typed, most likely because it was restarted: type it again."
        ),
        "form_forgotten": "The bot no longer knows this form: choose it in the menu of the message again.",
        "favourites_full": "You can have {limit} favourites: remove one first.",
        "export_runs": "Your export is being made: wait until it is here.",
        "picture_unsigned": (
            "The picture cannot be marked as AI-generated at the moment, so it is not sent: try again later."
        ),
        "export_late": "Your export was not ready in time: try it again later.",
        "publish_restricted": (
            "This was painted in an age-restricted channel: publish it in such a channel."
        ),
        "publish_again": (
            "This result is in this channel already: delete that message first to publish it once more."
        ),
        "show_restricted": ("This was painted in an age-restricted channel: look at it in such a channel."),
        "no_picture": "This picture's file is gone: choose another, or ask for it again.",
        "queue_full_user": (
            "At most {limit} of your pictures can wait, and large ones count as several: wait for some to "
            "start or cancel some, then ask again."
        ),
        "queue_full_server": (
            "This server's queue is full, with places for {limit} pictures: please ask again a little later."
        ),
        "queue_full": "The queue is full, with places for {limit} pictures: please ask again a little later.",
        "outdated_command": "This command has changed: restart Discord to see the new one.",
        "moderate_no_server": "This command works only in a server that has the bot.",
        "moderate_right": "You need the permission Manage Messages in the whole server: ask a moderator.",
        "block_self": "You cannot block yourself: choose another member.",
        "block_bot": "A bot asks for no pictures: choose a person.",
        "block_moderator": (
            "The owner and members with Manage Messages cannot be blocked: take that permission away first."
        ),
        "not_blocked": "No moderator of this server has blocked this member: {command} shows who is blocked.",
        "not_paused": "Painting is not paused there: {command} shows where it is.",
        "nothing_to_clear": "This member has asked for nothing here in these hours: choose more hours.",
        "audit_empty": "Nothing of this kind is in the log: choose another member or act.",
        "blocked_here": "A moderator has blocked you from painting in this server.",
        "blocked_server": "The bot's owner has blocked this server from painting.",
        "blocked_everywhere": "The bot's owner has blocked you from painting.",
        "blocked_for_good": "The block has no end date: ask a moderator to remove it.",
        "blocked_until": "This ends {until}.",
        "blocked_reason": "The reason: {reason}",
        **policy_mistakes.MISTAKES,
        "store_unavailable": "The queue cannot be reached right now: please ask again in a minute.",
        **KNOWN_MISTAKES,
        **REVIEW_MISTAKES,
        **SESSION_MISTAKES,
    }
)

_ISOLATE = "\N{FIRST STRONG ISOLATE}{}\N{POP DIRECTIONAL ISOLATE}"
_RTL_CLASSES = ("R", "AL", "AN")  # bidirectional classes of letters and digits that run from right to left
_RTL_MARK = "\N{RIGHT-TO-LEFT MARK}"
SEPARATOR = " · "


class Moment(float):
    """A time in seconds since the epoch that Discord shows in the reader's language, such as `in 3 hours`."""

    def __str__(self) -> str:
        return f"<t:{int(self)}:R>"


class Texts:
    """The sentences of one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._locale = Locale.parse(language)
        self._is_rtl = self._locale.text_direction == "rtl"
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
        if self._is_rtl or any(unicodedata.bidirectional(letter) in _RTL_CLASSES for letter in text):
            return _ISOLATE.format(text)
        return text

    def joined(self, parts: Iterable[object]) -> str:
        """Return the parts on one line, with separators."""
        return SEPARATOR.join(self.isolated(part) for part in parts)

    def line(self, text: str, *, mark: str = "") -> str:
        """Return Markdown's `mark` and a line in the direction of the language, whatever its first letter."""
        return f"{mark}{_RTL_MARK if self._is_rtl else ''}{text}"

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


def tidy(text: str) -> str:
    """Return `text` on one line, without direction controls and long runs of marks or invisible letters."""
    line = re.sub(r"\s+", " ", _DIRECTIONS.sub("", text)).strip()
    return "".join(_bounded(kind, "".join(run)) for kind, run in groupby(line, _kind))


def shown(text: str, limit: int) -> str:
    """Return a person's words on one line, cut to `limit` characters, and escaped for Discord.

    They are cut after a word, where there is one in the second half. The result has at most twice as many
    characters.
    """
    line = tidy(text)
    if len(line) > limit:
        line = _beginning(line, limit - 1) + "…"
    escaped = _LINK.sub(r"\\:", _MARKUP.sub(r"\\\g<0>", line))
    # At the start of a line such a character makes a list, a quotation or a heading.
    escaped = _FIRST.sub(lambda found: found[0] + "\\" if found[0].isdigit() else "\\" + found[0], escaped)
    return _EVERYBODY.sub("@\u200b", escaped)


def is_cut(text: str, limit: int) -> bool:
    """Return whether `shown` leaves something of `text` out."""
    return len(tidy(text)) > limit


def _beginning(line: str, limit: int) -> str:
    """Return the first words of a longer line, or the first letters of a long word."""
    end = 0
    for letter in _LETTER.finditer(line):
        if letter.end() > limit:
            break
        end = letter.end()
    end = end or limit
    word_end = line.rfind(" ", 0, end + 1)
    return line[: word_end if word_end >= limit // 2 else end].rstrip(" ,;")


def _kind(character: str) -> str:
    """Return "mark", "invisible", "unwanted" or "seen" for a character."""
    category = unicodedata.category(character)
    if character in _BLANKS or category == "Cf" or 0xFE00 <= ord(character) <= 0xFE0F:
        return "invisible"
    if category in ("Cc", "Cs") or 0xE0100 <= ord(character) <= 0xE01EF:
        return "unwanted"
    return "mark" if category in ("Mn", "Me") else "seen"


def _bounded(kind: str, run: str) -> str:
    if kind == "unwanted":
        return ""
    if kind == "mark":
        return run[:MARKS_IN_A_ROW]
    return run[:INVISIBLE_IN_A_ROW] if kind == "invisible" else run
