"""Names and descriptions of commands in Discord's languages."""

from __future__ import annotations

from discord import Locale
from discord.app_commands import (
    TranslationContextLocation,
    TranslationContextTypes,
    Translator,
    locale_str,
)

from bot.texts.catalogue import Texts

LOCALES = (Locale.korean, Locale.chinese, Locale.taiwan_chinese)
NAMES = (
    TranslationContextLocation.command_name,
    TranslationContextLocation.group_name,
    TranslationContextLocation.parameter_name,
)
DESCRIPTIONS = (
    TranslationContextLocation.command_description,
    TranslationContextLocation.group_description,
    TranslationContextLocation.parameter_description,
)


class CatalogueTranslator(Translator):
    """Reads the same catalogues as the answers; a choice keeps its name, unless that is marked as `words`."""

    async def translate(
        self, string: locale_str, locale: Locale, context: TranslationContextTypes
    ) -> str | None:
        """Return the name or description in `locale`; None where the English one is used."""
        if locale not in LOCALES:
            return None
        texts = Texts.for_locale(locale.value)
        if context.location in NAMES:
            return texts.pgettext("name", string.message)
        # discord.py passes every name of a choice, those of models and samplers too.
        words = context.location is TranslationContextLocation.choice_name and string.extras.get("words")
        if words or context.location in DESCRIPTIONS:
            return texts.gettext(string.message)
        return None


def command_name(locale: Locale, *path: str) -> str:
    """Return a command, such as `/moderate show`, with the names that Discord shows in `locale`."""
    names = Texts.for_locale(locale.value)
    return "/" + " ".join(names.pgettext("name", part) for part in path)
