"""Arabic: the clitics around a word, and digits that stand for letters in chats."""

from __future__ import annotations

import re

from bot.moderation.letters import words_of

_CONJUNCTIONS = ("", "و", "ف")
_PREPOSITIONS = ("", "ب", "ل", "ك", "ال", "بال", "كال", "لل", "لال")
CLITICS = frozenset(first + second for first in _CONJUNCTIONS for second in _PREPOSITIONS)
"""What may stand before a word in one with it, or nothing."""
BEFORE = frozenset(clitic[0] for clitic in CLITICS if clitic)
LATEST_START = max(map(len, CLITICS))
_PRONOUNS = ("ه", "ها", "هم", "هن", "هما", "ك", "كم", "كن", "نا")
_ENDINGS = ("ا", "ات", "ين", "ون", "ان", "وا")
_SHAPES = dict(zip("1!|0537", "اااههعح", strict=True))
_SHAPE = re.compile("[0-9!|](?<=[\u0620-\u06ff].)|[0-9!|](?=[\u0620-\u06ff])")


def forms(word: str) -> set[str]:
    """Return a word with the endings and pronouns that it may have; without clitics before it."""
    if word[-1] in "ةه" and len(word) > 2:
        stem = word[:-1]
        made = {stem + "ة", stem + "ه", stem + "ات"}
        made |= {stem + "ت" + each for each in (*_PRONOUNS, "ين", "ان")}
        made |= {stem + "ات" + each for each in _PRONOUNS}
        return made | ({word + each for each in _PRONOUNS} if word[-1] == "ه" else set())
    made = {word, *(word + each for each in (*_PRONOUNS, *_ENDINGS))}
    if word[-1] == "ي" and len(word) > 3:
        made |= {word[:-1] + "ية", word[:-1] + "يه"}
    if len(word) > 2:
        made.add(word + "ت")
    if len(word) > 4:
        made |= {word + "ي", word + "ية", word + "يه"}
    return made


def words(text: str) -> list[str]:
    """Return the words of a text with digits beside letters as the letters that they stand for: سلا7."""
    made = text if text.isascii() else _SHAPE.sub(lambda sign: _SHAPES.get(sign[0], ""), text)
    return [] if made == text else words_of(made)


def is_part_of_other(word: str, start: int, end: int) -> bool:
    """Return whether other letters than clitics stand before the form, or any after it."""
    return end < len(word) or word[:start] not in CLITICS
