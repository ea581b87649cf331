"""Buttons under pictures: their rights, their actions, and their use after a restart."""

from __future__ import annotations

import pytest
from front_tools import delete, ephemeral, finished, job_of, queued, refusal, sees, text_of
from serving import Served, serving

from bot.config import Config
from bot.domain.errors import StoreUnavailable
from bot.domain.jobs import State
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store


async def test_again_paints_the_recipe_with_the_next_seed_for_the_presser(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a boat", seed=5, steps=9)
    answer = await omar.message_of(await omar.press(message, "Again"))
    again = await job_of(served.store, "a boat")
    assert answer["id"] != message["id"]
    assert "Queued, 1st" in text_of(answer)
    assert again.id != job.id
    assert again.recipe.seed == 6
    assert again.recipe.num_inference_steps == 9
    assert str(again.origin.user_id) == (await omar.state())["me"]["id"]


async def test_delete_removes_the_message_and_the_stored_picture_for_the_owner_alone(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a boat")
    name = job.images[0].artifact
    assert name is not None
    told = await refusal(omar, await omar.press(message, "Delete"))
    assert told.startswith("Only the person who asked for this picture")
    assert await served.artifacts.get(name)

    await delete(ravi, message)
    deleted = await served.store.jobs.get(job.id)
    assert deleted.deleted_at is not None
    assert deleted.images[0].artifact is None
    with pytest.raises(Exception, match="is gone"):
        await served.artifacts.get(name)


async def test_a_shown_copy_of_a_deleted_result_paints_and_tells_nothing(
    served: Served, ravi: Member
) -> None:
    job, message = await finished(served, ravi, "a boat")
    shown = await ravi.message_of(await ravi.use("show", job=job.id))
    await delete(ravi, message)
    for label in ("Again", "Remix"):
        assert (
            await refusal(ravi, await ravi.press(shown, label))
            == "The bot does not have this picture, or no longer has it."
        )
    about = await ravi.press(shown, "More", values=["info"])
    assert await refusal(ravi, about) == "The bot does not have this picture, or no longer has it."
    assert await served.store.jobs.active() == []


async def test_the_message_stays_until_its_deletion_is_complete(
    served: Served, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object) -> None:
        raise StoreUnavailable("the database is silent")

    _, message = await finished(served, ravi, "a boat")
    with monkeypatch.context() as silent:
        silent.setattr(served.store.files, "note_deleted", unavailable)
        form = await ravi.modal_of(await ravi.press(message, "Delete"))
        told = await refusal(ravi, await ravi.submit(form))
    assert told.startswith("The queue cannot be reached right now")
    assert await sees(ravi, message)
    await delete(ravi, message)


async def test_buttons_work_after_a_restart(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    async with serving(sandbox, store, artifacts, Config()) as served:
        _, message = await finished(served, ravi, "a boat")
        waiting = await queued(ravi, "a tree")
    async with serving(sandbox, store, artifacts, Config()):
        await ravi.message_of(await ravi.press(message, "Again"))
        assert (await job_of(store, "a boat")).state is State.WAITING
        await delete(ravi, message)
        await ravi.press(waiting, "Cancel")
        await ravi.wait_for_message(lambda message: "Cancelled. Press Again" in text_of(message))


async def test_again_of_a_private_picture_is_private(served: Served, ravi: Member) -> None:
    _, message = await finished(served, ravi, "a secret", private=True)
    answer = await ravi.message_of(await ravi.press(message, "Again"))
    assert ephemeral(answer)
