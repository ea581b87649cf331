"""Keywords that the prompt of /imagine suggests."""

from __future__ import annotations

from pathlib import Path

import pytest
from front_tools import job_of
from serving import Served, serving

from bot.config import Config
from bot.domain.errors import ConfigurationError
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store

TAGS = 'long_hair,0,40,"very_hairy"\nlong_sleeves,0,50,\nsaber_(fate),4,9,"artoria"\n'


async def test_the_prompt_completes_the_last_keyword(
    sandbox: Sandbox,
    store: Store,
    artifacts: Artifacts,
    discord_address: object,
    *,
    ravi: Member,
    tmp_path: Path,
) -> None:
    (tmp_path / "tags.csv").write_text(TAGS)
    config = Config.parse({"prompts": {"keywords_file": str(tmp_path / "tags.csv")}})
    async with serving(sandbox, store, artifacts, config) as served:
        choices = await ravi.autocomplete("imagine", "prompt", "a cat, long")
        assert [choice["value"] for choice in choices] == ["a cat, long sleeves", "a cat, long hair"]
        assert await ravi.autocomplete("imagine", "prompt", "x" * 200 + ", long") == []
        [choice] = await ravi.autocomplete("imagine", "prompt", "arto")
        await ravi.message_of(await ravi.imagine(prompt=choice["value"]))
        assert await job_of(served.store, r"saber \(fate\)")


async def test_nothing_is_suggested_without_a_keyword_file(served: Served, ravi: Member) -> None:
    assert served.bot.services.keywords is None
    commands = {command["name"]: command for command in (await ravi.state())["commands"]}
    [prompt] = [option for option in commands["imagine"]["options"] if option["name"] == "prompt"]
    assert not prompt.get("autocomplete")


async def test_a_file_without_keywords_stops_the_start(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object, tmp_path: Path
) -> None:
    (tmp_path / "tags.csv").write_text("\n")
    for name, reason in (("none.csv", "cannot be read: No such file"), ("tags.csv", "has no keywords")):
        config = Config.parse({"prompts": {"keywords_file": str(tmp_path / name)}})
        with pytest.raises(ConfigurationError, match=reason):
            async with serving(sandbox, store, artifacts, config):
                pass
