"""People read no words that are not in the catalogues."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from visible_texts import Found, tables_translated_in, unknown_codes, visible_texts

from bot.texts.catalogue import MISTAKES
from sdjax_engine.errors import InvalidRequest

ROOT = Path(__file__).parents[2]
SHOWN_BY = (
    "bot/front",
    "bot/delivery",
    "bot/texts/catalogue.py",
    "bot/domain/expansion.py",
    "bot/domain/sizes.py",
)

UNSEEN: Mapping[str, tuple[str, ...]] = {
    "bot/delivery/outbox.py": ("the outbox was last read ", " s ago"),  # the operator's page of health
    "bot/front/client.py": (  # the operator's log
        "discord.guild_ids: the bot is not a member of server ",
        ", or was invited without the scope applications.commands.",
    ),
    "bot/front/gateway/command_tree.py": ("in server ",),  # the operator's log
    "bot/front/commands/help.py": (  # prompts, which models read in English only
        "a red heart left of a blue star",
        "a large yellow moon above a small pink heart on a purple background",
        "a small pink flower above a large cyan moon",
        "`{red, blue}`",
    ),
    "bot/front/gateway/connections.py": (  # the operator's page of health
        "shard ",
        " is not connected to Discord's gateway",
        "no session start is left today: the front connects in ",
        " min",
        "not connected to Discord's gateway",
    ),
    "bot/front/recipes/preferences.py": ("a picture",),  # stands for a prompt while options are checked
    "bot/front/uploads/proxies.py": ("Basic ",),  # a header
    "bot/front/gateway/registration.py": (  # the operator's log, and the end of a start
        "the largest is ",
        "Discord refuses the commands: ",
        ". Change the offer in this configuration or in the worker's, or update the bot.",
    ),
}
"""Words that no person reads on Discord, or that must be English."""


def sources(*places: str) -> dict[str, str]:
    """The modules of these folders and files, by their paths."""
    paths = [
        path
        for place in places
        for path in ([ROOT / place] if "." in place else (ROOT / place).rglob("*.py"))
    ]
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(paths)}


def test_every_text_that_people_see_is_in_the_catalogues() -> None:
    everything = sources("bot")
    tables = frozenset[str]().union(*map(tables_translated_in, everything.values()))
    assert {"FAILURES", "MISTAKES", "TROUBLES"} <= tables
    found = {
        path: {each.text for each in visible_texts(source, translated_tables=tables)}
        for path, source in sources(*SHOWN_BY).items()
    }
    assert len(found) > 80
    assert {path: texts for path, texts in found.items() if texts} == {
        path: set(texts) for path, texts in UNSEEN.items()
    }


def test_every_mistake_has_a_sentence() -> None:
    known = {"UserMistake": frozenset(MISTAKES), "InvalidRequest": frozenset(InvalidRequest.SENTENCES)}
    codes = {path: unknown_codes(source, known) for path, source in sources("bot", "sdjax_engine").items()}
    assert {path: found for path, found in codes.items() if found} == {}


UNTRANSLATED = [
    'button = ButtonContent(label="Again", custom_id="again:1")',
    'button = discord.ui.Button(label=f"Again {count}")',
    'menu = Select(placeholder="More" if many else texts.gettext("Other"))',
    'option = Option(name="job", description="Which one")',
    'form = modal("Remix", "remix:1")',
    'field = text_field("Prompt", "prompt", value)',
    'choice = app_commands.Choice(name="Yours", value="me")',
    'item = discord.ui.TextDisplay("Queued.")',
    'item = TextDisplay("\\n".join(["Queued"]))',
    'view = page("### Statistics")',
    'await add(interaction, "Saved")',
    'await interaction.followup.send("Saved", ephemeral=True)',
    'await interaction.response.send_message(content="Saved")',
    'content = MessageContent(heading=f"**{words}**", status="Cancelled")',
    'line = texts.line("steps")',
    'line = texts.joined([seed, "steps"])',
    'said = texts.gettext("Cancelled: {prompt}", prompt="private one")',
    'raise UserMistake("queue_full", what="image")',
    'SENTENCES = {"gone": "It is gone."}',
    'said = "It is " + name',
    'async def show(interaction):\n    said = "Saved"\n    await add(interaction, said)',
    'async def show(interaction):\n    said = ""\n    said += "Saved"\n    await add(interaction, said)',
    'def outcome(job, texts: Texts) -> str:\n    return "painted"',
    'def parts(job, texts: Texts) -> Iterator[str]:\n    yield f"painted{job}"',
    'item = TextDisplay("저장됨")',
]

TRANSLATED = [
    '"""A module that says things."""',
    'def act() -> None:\n    """Say a thing."""',
    'button = ButtonContent(label=texts.gettext("Again"), custom_id="again:1")',
    'option = Option(name="job", description=locale_str("Which one"))',
    'item = TextDisplay(texts.ngettext("{count} picture", "{count} pictures", 2))',
    'word = texts.pgettext("ordinal", "{number}st", number=number)',
    'item = TextDisplay(f"### {heading} · {width}×{height}")',
    'form = modal(texts.gettext("Remix"), "remix:1")',
    'log.warning("a hint could not be sent: %s", failure)',
    'raise StoreUnavailable("a job could not be read in time")',
    'raise UserMistake("queue_full", limit=50)',
    'FOUND = re.compile("a b")\nheader = headers.get("Retry After")',
    'if words == "two words":\n    pass',
    'S = {"gone": "It is gone."}\ndef say(kind, texts):\n    return texts.gettext(S[kind])',
    'S = {"gone": "It is gone."}\ndef say(kind):\n    said = S.get(kind)\n    return texts.gettext(said)',
    'def label_of(job, texts: Texts) -> str:\n    return texts.gettext("painted")',
    'def key_of(job) -> str:\n    return "painted"',
]


@pytest.mark.parametrize("source", UNTRANSLATED)
def test_a_text_outside_the_catalogues_is_found(source: str) -> None:
    assert visible_texts(source)


@pytest.mark.parametrize("source", TRANSLATED)
def test_translated_and_invisible_texts_are_not_found(source: str) -> None:
    assert visible_texts(source) == []


def test_a_code_without_a_sentence_is_found() -> None:
    source = 'raise UserMistake("queue_full")\nraise UserMistake("queue_fall")\nraise UserMistake(code)'
    assert unknown_codes(source, {"UserMistake": frozenset({"queue_full"})}) == [Found(2, "queue_fall")]
