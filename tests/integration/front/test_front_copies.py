"""Single pictures of a grid, the original files, and the confirmation of a deletion."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from front_tools import delete, ephemeral, finished, gone, job_of, refusal, sees, text_of
from results import labels, shows_result
from serving import Served, serving

from bot.config import Config
from bot.domain.channels import ChannelKind
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store


def shown(message: dict[str, Any]) -> bool:
    return shows_result(message)


async def test_one_picture_is_shown_alone_in_full_size_with_a_link_to_its_grid(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "boats", variants=3, seed=5)
    assert labels(message) == ["U1", "U2", "U3", "V1", "V2", "V3", "Again", "Remix", "Files", "Delete"]
    alone = await omar.message_of(await omar.press(message, "U2"), shown)
    name = job.images[1].artifact
    assert name is not None
    assert await omar.attachment_bytes(alone) == await served.artifacts.get(name)
    assert labels(alone) == ["Again", "Remix", "Vary", "Files", "Delete"]
    place = f"https://discord.com/channels/{job.origin.guild_id}/{job.origin.channel_id}/{message['id']}"
    assert f"picture 2 of [this grid]({place})" in text_of(alone)
    assert "seed 6" in text_of(alone)
    (single,) = await served.store.jobs.copies(job.id)
    assert str(single.origin.user_id) == (await omar.state())["me"]["id"]
    assert await served.store.jobs.active() == []


async def test_a_picture_of_a_private_grid_stays_private(served: Served, ravi: Member) -> None:
    _, message = await finished(served, ravi, "secrets", variants=2, private=True)
    alone = await ravi.message_of(await ravi.press(message, "U1"), shown)
    assert ephemeral(alone)
    assert "picture 1 of a grid" in text_of(alone)


async def test_only_the_presser_gets_the_original_files(served: Served, ravi: Member, omar: Member) -> None:
    job, message = await finished(served, ravi, "boats", variants=2)
    sent = await omar.message_of(await omar.press(message, "Files"), shown)
    assert ephemeral(sent)
    with zipfile.ZipFile(io.BytesIO(await omar.attachment_bytes(sent))) as archive:
        files = [archive.read(name) for name in archive.namelist()]
    assert files == [await served.artifacts.get(image.artifact or "") for image in job.images]


async def test_missing_files_are_reported(served: Served, ravi: Member) -> None:
    job, message = await finished(served, ravi, "a boat")
    await served.artifacts.delete(job.images[0].artifact or "")
    told = await refusal(ravi, await ravi.press(message, "Files"))
    assert told.startswith("This picture's file is gone")


async def test_nothing_is_deleted_before_the_confirmation(served: Served, ravi: Member) -> None:
    job, message = await finished(served, ravi, "a boat")
    asked = await ravi.modal_of(await ravi.press(message, "Delete"))
    assert asked["title"] == "Delete this?"
    assert (await served.store.jobs.get(job.id)).deleted_at is None
    await ravi.submit(asked)
    await gone(ravi, message)
    assert (await served.store.jobs.get(job.id)).deleted_at is not None


async def test_deleting_a_grid_deletes_the_messages_of_its_single_pictures(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "boats", variants=2)
    alone = await omar.message_of(await omar.press(message, "U1"), shown)
    await delete(ravi, message)
    assert not await sees(omar, alone)
    assert await served.store.jobs.copies(job.id) == []
    for image in job.images:
        assert await served.store.files.painter(image.artifact or "") is None


async def test_a_private_result_is_published_by_its_owner_with_its_buttons(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a secret", private=True)
    assert labels(message)[-2:] == ["Publish", "Delete"]
    interaction = await ravi.press(message, "Publish")
    published = await omar.message_of(interaction, shown)
    assert not ephemeral(published)
    assert await omar.attachment_bytes(published) == await served.artifacts.get(job.images[0].artifact or "")
    assert labels(published) == ["Again", "Remix", "Vary", "Files", "Delete"]
    assert "in this channel already" in await refusal(ravi, await ravi.press(message, "Publish"))
    await delete(ravi, published)
    assert (await served.store.jobs.get(job.id)).deleted_at is None


async def test_pictures_of_an_age_restricted_channel_are_published_only_in_such_a_channel(
    served: Served, ravi: Member
) -> None:
    interaction = await ravi.imagine(prompt="a secret", private=True, channel="nsfw-art")
    await ravi.message_of(interaction, channel="nsfw-art")
    job = await served.paint((await job_of(served.store, "a secret")).id)
    await ravi.message_of(interaction, shown, channel="nsfw-art")
    listed = await ravi.message_of(await ravi.use("history"))
    chosen = await ravi.press(listed, "Show one again, with its buttons", values=[job.id])
    again = await ravi.message_of(chosen, shown)
    told = await refusal(ravi, await ravi.press(again, "Publish"))
    assert told.startswith("This was painted in an age-restricted channel")
    assert await served.store.jobs.copies(job.id) == []


async def kind_in(served: Served, member: Member, channel: str, prompt: str) -> ChannelKind:
    """Ask for a picture in a channel, and return the kind of channel that its job has."""
    await member.message_of(await member.imagine(prompt=prompt, channel=channel), channel=channel)
    job = await job_of(served.store, prompt)
    await served.paint(job.id)
    return job.origin.channel_kind


async def test_a_job_has_the_kind_of_its_channel_and_in_a_thread_that_of_the_threads_channel(
    served: Served, sandbox: Sandbox, ravi: Member
) -> None:
    sandbox.make_spoiler_channel("general")
    sandbox.open_thread("general", "hidden")
    sandbox.open_thread("nsfw-art", "grown")
    channels = ("art", "general", "hidden", "dm", "nsfw-art", "grown")
    found = [await kind_in(served, ravi, channel, f"a boat in {channel}") for channel in channels]
    plain, spoiler, adults = ChannelKind
    assert found == [plain, spoiler, spoiler, plain, adults, adults]
    sandbox.make_spoiler_channel("general", spoiler=False)
    assert await kind_in(served, ravi, "hidden", "a boat after that") is plain


async def test_spoiler_channels_from_before_the_connection_are_known_in_their_threads(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    sandbox.make_spoiler_channel("general")
    sandbox.open_thread("general", "hidden")
    async with serving(sandbox, store, artifacts, Config()) as served:
        assert await kind_in(served, ravi, "hidden", "a boat") is ChannelKind.SPOILER
        sandbox.kick()
        sandbox.invite()
        assert await kind_in(served, ravi, "hidden", "a ship") is ChannelKind.SPOILER


async def test_a_result_deleted_from_the_history_is_deleted_in_its_channel_too(
    served: Served, ravi: Member
) -> None:
    job, message = await finished(served, ravi, "a boat")
    listed = await ravi.message_of(await ravi.use("history"), shown)
    again = await ravi.message_of(
        await ravi.press(listed, "Show one again, with its buttons", values=[job.id]), shown
    )
    await delete(ravi, again)
    assert not await sees(ravi, message)


async def test_deleting_a_private_result_deletes_its_publication_and_the_copies_of_that(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "secrets", variants=2, private=True)
    published = await ravi.message_of(await ravi.press(message, "Publish"), shown)
    picked = await omar.message_of(await omar.press(published, "U1"), shown)
    await delete(ravi, message)
    for copy in (published, picked):
        assert not await sees(omar, copy)
    assert await served.store.jobs.copies(job.id) == []
