"""In which language a person is answered."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from front_tools import refusal
from serving import serving

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.texts.catalogue import LANGUAGES, Texts
from bot.texts.mistakes import MISTAKES

ID = {user.global_name: user.id for user in PEOPLE}


async def language_of(member: Member) -> str:
    """The language of the bot's answer: that of a sentence in it."""
    sentence = MISTAKES["nothing_to_cancel"]
    said = {language: Texts.for_locale(language).gettext(sentence) for language in LANGUAGES}
    answer = await refusal(member, await member.use("cancel"))
    (found,) = [language for language, words in said.items() if words in answer]
    return found


@pytest.mark.parametrize(
    ("language", "languages", "expected"),
    [
        ("", {ID["Omar"]: "ar"}, ("ar", "ko")),
        ("zh", {ID["Omar"]: "en"}, ("en", "zh")),
        ("zh", {GUILD_ID: "ar", ID["Omar"]: "en"}, ("en", "ar")),
    ],
)
async def test_a_persons_language_takes_precedence_over_the_servers_and_the_default(
    sandbox: Sandbox,
    store: Store,
    artifacts: Artifacts,
    discord_address: object,
    *,
    omar: Member,
    yuna: Member,
    language: str,
    languages: Mapping[int, str],
    expected: tuple[str, str],
) -> None:
    said = {"language": language, "languages": {str(each): known for each, known in languages.items()}}
    async with serving(sandbox, store, artifacts, Config.parse({"discord": said})):
        assert (await language_of(omar), await language_of(yuna)) == expected
