"""/queue, /cancel and /help, as members of a server see them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from front_tools import Message, ephemeral, job_of, queued, text_of
from results import shows_result
from serving import Served, until

from bot.domain.jobs import State
from bot.sandbox.client import Member
from bot.sandbox.component_rules import walk
from bot.store.tables.queue import jobs


def menu_of(message: Message) -> Any:
    """The only menu of a message."""
    (menu,) = [part for _, part in walk(message["components"]) if "options" in part]
    return menu


async def closed_to_somebody(served: Served, channel: str) -> bool:
    """Return whether the bot knows that a channel is closed to a member."""
    (guild,) = served.bot.guilds
    (place,) = [each for each in guild.text_channels if each.name == channel]
    return any(overwrite.view_channel is False for overwrite in place.overwrites.values())


async def test_the_queue_is_shown_in_order_to_the_asker_alone(
    served: Served, ravi: Member, yuna: Member, omar: Member
) -> None:
    await queued(ravi, "a boat")
    await queued(yuna, "a secret", private=True)
    message = await ravi.message_of(await ravi.use("queue"))
    lines = text_of(message).strip().splitlines()
    assert ephemeral(message)
    assert lines[0] == "### The queue of this server"
    assert lines[1].startswith("1\\. **you** · a boat · 1 picture")
    assert lines[2].startswith("2\\. <@")
    assert "*private*" in lines[2]
    assert "2 requests wait" in lines[3]
    assert not [seen for seen in await omar.messages() if ephemeral(seen)]


async def test_the_queue_hides_prompts_of_channels_that_the_reader_cannot_see(
    served: Served, ravi: Member, omar: Member
) -> None:
    await queued(ravi, "a surprise")
    assert "a surprise" in text_of(
        await omar.message_of(await omar.use("queue", channel="general"), channel="general")
    )
    served.sandbox.shut_out("art", "omar")
    await until(lambda: closed_to_somebody(served, "art"))
    lines = text_of(await omar.message_of(await omar.use("queue", channel="general"), channel="general"))
    assert "a surprise" not in lines
    assert "*private*" in lines


async def test_cancel_cancels_the_only_request_of_the_asker(
    served: Served, ravi: Member, omar: Member
) -> None:
    await queued(ravi, "a boat")
    await queued(omar, "a tree")
    told = await ravi.message_of(await ravi.use("cancel"))
    assert text_of(told).strip() == "Cancelled: a boat"
    assert [job.recipe.prompt for job in await served.store.jobs.active()] == ["a tree"]
    await ravi.wait_for_message(lambda message: "Cancelled. Press Again" in text_of(message))


async def test_a_person_cancels_a_request_that_this_version_cannot_read(
    served: Served, ravi: Member, omar: Member
) -> None:
    await queued(omar, "a tree")
    await queued(ravi, "a boat")
    boat = await job_of(served.store, "a boat")
    async with served.store.shared.database.write() as connection:
        await connection.execute(sa.update(jobs).where(jobs.c.id == boat.id).values(recipe={"prompt": "?"}))
    refused = await omar.message_of(await omar.use("cancel", job=boat.id))
    assert "Only the person who asked for this picture" in text_of(refused)
    told = await ravi.message_of(await ravi.use("cancel"))
    assert text_of(told).strip() == "Cancelled 1 request."
    assert [job.recipe.prompt for job in await served.store.jobs.active()] == ["a tree"]
    assert await served.store.jobs.active_ids(boat.origin.user_id) == []


async def test_several_requests_are_listed_and_cancelled_at_once_from_a_menu(
    served: Served, ravi: Member, omar: Member
) -> None:
    for prompt in ("one", "two", "three"):
        await queued(ravi, prompt)
    asked = await ravi.message_of(await ravi.use("cancel"))
    assert ephemeral(asked)
    assert "You have 3 requests: choose what to cancel." in text_of(asked)
    choices = {choice["label"]: choice["value"] for choice in menu_of(asked)["options"]}
    await ravi.press(asked, "Your requests", values=[choices["one"], choices["three"]])
    await ravi.wait_for_message(lambda message: text_of(message).strip() == "Cancelled 2 requests.")
    assert [job.recipe.prompt for job in await served.store.jobs.active()] == ["two"]


async def test_all_requests_are_cancelled_by_a_button(served: Served, ravi: Member, omar: Member) -> None:
    await queued(omar, "a tree")
    for prompt in ("one", "two"):
        await queued(ravi, prompt)
    choices = await ravi.autocomplete("cancel", "job", "")
    assert [choice["name"].rsplit(" · ", 1)[-1] for choice in choices] == ["All of mine", "one", "two"]
    asked = await ravi.message_of(await ravi.use("cancel"))
    await ravi.press(asked, "Cancel all of mine")
    await ravi.wait_for_message(lambda message: text_of(message).strip() == "Cancelled 2 requests.")
    assert [job.recipe.prompt for job in await served.store.jobs.active()] == ["a tree"]


async def test_a_moderator_chooses_among_the_requests_of_others_by_name(
    served: Served, ravi: Member, omar: Member, mina: Member
) -> None:
    await queued(ravi, "a boat", variants=4)
    await queued(omar, "a tree", private=True)
    asked = await mina.message_of(await mina.use("cancel"))
    boat, tree = menu_of(asked)["options"]
    assert boat["label"] == "a boat"
    assert boat["description"].startswith("Ravi · 4 pictures · ")
    assert (tree["label"], tree["description"].split(" · ")[0]) == ("private", "Omar")
    await mina.press(asked, "Requests of others", values=[boat["value"], tree["value"]])
    await mina.wait_for_message(lambda message: text_of(message).strip() == "Cancelled 2 requests.")
    assert await served.store.jobs.active() == []


async def test_a_moderator_who_cancels_a_private_request_does_not_see_its_prompt(
    served: Served, omar: Member, mina: Member
) -> None:
    await queued(omar, "a tree", private=True)
    job = await job_of(served.store, "a tree")
    told = await mina.message_of(await mina.use("cancel", job=job.id))
    assert text_of(told).strip() == "Cancelled: private"


async def test_a_request_that_was_partly_painted_says_so_when_it_is_cancelled(
    served: Served, ravi: Member
) -> None:
    await queued(ravi, "a boat", variants=3)
    await served.paint_one()
    told = await ravi.message_of(await ravi.use("cancel"))
    kept = "1 of 3 pictures were painted already and are kept."
    assert text_of(told).strip() == f"Cancelled: a boat\n{kept}"
    shown = await ravi.wait_for_message(shows_result)
    assert "2 of 3 pictures were cancelled." in text_of(shown)
    listed = await ravi.message_of(await ravi.use("history"))
    assert "3 pictures · painted: 1, cancelled: 2 · " in text_of(listed)


async def test_a_moderator_of_one_channel_has_no_rights_in_another(
    served: Served, ravi: Member, omar: Member
) -> None:
    served.sandbox.appoint("general", "omar")
    await queued(ravi, "a boat")
    job = await job_of(served.store, "a boat")
    assert await omar.autocomplete("cancel", "job", "", channel="general") == []
    interaction = await omar.use("cancel", channel="general", job=job.id)
    message = await omar.message_of(interaction, channel="general")
    assert text_of(message).startswith("Only the person who asked")
    served.sandbox.appoint("art", "omar")
    await omar.message_of(await omar.use("cancel", job=job.id))
    assert (await served.store.jobs.get(job.id)).state is State.CANCELLED


async def test_help_is_in_the_readers_language(served: Served, yuna: Member) -> None:
    message = await yuna.message_of(await yuna.use("help"))
    assert ephemeral(message)
    assert "**/그리기** 명령으로" in text_of(message)
    assert "`제외_프롬프트`" in text_of(message)
