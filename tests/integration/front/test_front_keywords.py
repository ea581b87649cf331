"""Keywords that the prompt of /imagine suggests."""

from __future__ import annotations

from pathlib import Path

from front_tools import job_of
from serving import serving

from bot.config import Config
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
