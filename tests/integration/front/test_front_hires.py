"""`/imagine hires:` over the sandbox."""

from __future__ import annotations

from front_tools import finished, job_of, text_of
from serving import Served, serving

from bot.config import Config, ModelConfig
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store
from sdjax_engine.request import SecondPass

TWO_SIZES = Config(models=(ModelConfig(sizes=("128x128", "256x256")),))
SECOND = SecondPass(width=256, height=256, strength=0.5, num_inference_steps=9)


async def test_a_second_pass_is_queued_shown_remixed_and_repeated(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    async with serving(sandbox, store, artifacts, TWO_SIZES) as served:
        job, message = await finished(served, ravi, "a boat", steps=9, hires="2x", seed=5)
        assert job.recipe.second_pass == SECOND
        assert "256×256" in text_of(message)
        assert "enlarged from 128×128, strength 0.5, 9 steps" in text_of(message)

        form = await ravi.modal_of(await ravi.press(message, "Remix"))
        await ravi.message_of(
            await ravi.submit(form, prompt="a ship", negative_prompt="", settings="steps 4, hires 2x 0.3 8")
        )
        remixed = await job_of(store, "a ship")
        assert remixed.recipe.second_pass == SecondPass(
            width=256, height=256, strength=0.3, num_inference_steps=8
        )
        await store.jobs.cancel(remixed.id, user_id=None)

        await ravi.message_of(await ravi.press(message, "Again"))
        assert (await job_of(store, "a boat")).recipe.second_pass == SECOND


async def test_a_bot_without_larger_sizes_has_no_such_option(served: Served, ravi: Member) -> None:
    [imagine] = [each for each in (await ravi.state())["commands"] if each["name"] == "imagine"]
    assert "hires" not in [option["name"] for option in imagine["options"]]
