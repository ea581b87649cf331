"""/whose, its menu, and /known: whose a picture is, and pictures that are blocked, on the sandbox."""

from __future__ import annotations

from typing import Any

import PIL.Image
from front_tools import refusal, text_of
from results import shows_result
from serving import Served
from shapes import file_of, sent_again, shapes

from bot.domain.hashes import hash_of
from bot.domain.jobs import Job
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.store.rows.audit import Act
from bot.store.rows.hashes import Hashes

MENU = "Whose picture is this?"
NOBODY = "No kept request of this server has a picture like this."
BLOCKED = "“image” is blocked here, or almost identical to a blocked picture: choose another."


async def painted(served: Served, member: Member, prompt: str, picture: PIL.Image.Image) -> tuple[Job, Any]:
    """A finished job that shows the picture, hashed as a worker hashes it, and its message."""
    interaction = await member.imagine(prompt=prompt)
    await member.message_of(interaction)
    [claim] = await served.store.leases.claim("test", limit=1, ttl=60.0)
    name = await served.artifacts.put(file_of(picture), ".png")
    hashes = Hashes(result=hash_of(picture))
    job = await served.store.leases.complete(claim, artifact=name, seconds=1.0, hashes=hashes)
    return job, await member.message_of(interaction, shows_result)


async def test_moderators_learn_whose_a_picture_is_from_a_file_a_link_and_the_menu(
    served: Served, mina: Member, ravi: Member, yuna: Member
) -> None:
    boat = shapes(1)
    job, message = await painted(served, ravi, "a boat", boat)
    await painted(served, yuna, "a house", shapes(2))
    said = await refusal(mina, await mina.use("whose", picture=("x.jpg", sent_again(boat), "image/jpeg")))
    assert f"<@{job.origin.user_id}> asked for it, as picture 1" in said
    assert "very likely" in said or "certain" in said
    assert " bit" not in said
    assert f"/{message['id']})" in said
    assert str((await yuna.state())["me"]["id"]) not in said
    posted = await yuna.say("look", ("cat.jpg", sent_again(boat), "image/jpeg"))
    link = f"https://discord.com/channels/{GUILD_ID}/{posted['channel_id']}/{posted['id']}"
    assert f"<@{job.origin.user_id}> asked for it" in await refusal(mina, await mina.menu(posted, MENU))
    hidden = await refusal(mina, await mina.use("whose", message=link))
    assert (
        hidden == "Discord shows the bot no files of that message: use “Whose picture is this?” in its menu."
    )
    own = link.replace(posted["id"], message["id"])
    for asked in (await mina.menu(message, MENU), await mina.use("whose", message=own)):
        assert f"<@{job.origin.user_id}> asked for it, as picture 1" in await refusal(mina, asked)


async def test_each_picture_of_a_grid_is_looked_up_and_what_cannot_be_is_said(
    served: Served, mina: Member, ravi: Member, yuna: Member
) -> None:
    await painted(served, ravi, "a boat", shapes(1))
    await painted(served, yuna, "a house", shapes(2))
    grid = PIL.Image.new("RGB", (256, 256))
    for number, tile in enumerate((shapes(1), shapes(2), shapes(7), shapes(8))):
        grid.paste(tile, (128 * (number % 2), 128 * (number // 2)))
    posted = await yuna.say("a grid", ("grid.jpg", file_of(grid, "JPEG"), "image/jpeg"))
    both = await refusal(mina, await mina.menu(posted, MENU))
    for member in (ravi, yuna):
        assert f"<@{(await member.state())['me']['id']}> asked for it" in both
    other = await refusal(mina, await mina.use("whose", picture=("y.png", file_of(shapes(9)))))
    assert NOBODY in other
    words = await yuna.say("no picture here")
    link = f"https://discord.com/channels/{GUILD_ID}/{posted['channel_id']}/{posted['id']}"
    assert await refusal(mina, await mina.menu(words, MENU)) == "This message has no picture."
    assert "Send a picture" in await refusal(mina, await mina.use("whose"))
    for wrong in (link.replace(str(GUILD_ID), "5"), link + "9", "cat.png"):
        assert "is not the link of a message" in await refusal(mina, await mina.use("whose", message=wrong))


async def test_a_found_picture_is_blocked_by_its_button_and_refused_to_start_from(
    served: Served, mina: Member, ravi: Member
) -> None:
    boat = shapes(1)
    _, message = await painted(served, ravi, "a boat", boat)
    page = await mina.message_of(await mina.menu(message, MENU), lambda said: bool(text_of(said)))
    opened = await mina.modal_of(await mina.press(page, "Block this picture"))
    assert await served.store.known.blocked(GUILD_ID) == []
    told = await mina.message_of(await mina.submit(opened, reason="a leak"), lambda said: bool(text_of(said)))
    assert text_of(told).strip().startswith("Blocked as ")
    [blocked] = await served.store.known.blocked(GUILD_ID)
    assert blocked.reason == "a leak"
    assert "no longer blocked" in await refusal(mina, await mina.press(told, "Undo"))
    assert await served.store.known.blocked(GUILD_ID) == []
    opened = await mina.modal_of(await mina.press(page, "Block this picture"))
    await refusal(mina, await mina.submit(opened, reason=""))
    opened = await mina.modal_of(await mina.press(page, "Block this picture"))
    assert "blocked already" in await refusal(mina, await mina.submit(opened, reason=""))
    listed = await mina.message_of(await mina.use("known show"), shows_result)
    assert listed["attachments"][0]["filename"].startswith("SPOILER_")
    start = ("boat.jpg", sent_again(boat), "image/jpeg")
    refused = await refusal(ravi, await ravi.imagine(prompt="a tiger", image=start))
    assert refused == f"{BLOCKED}\nThe picture is not kept: send it again with /imagine."
    assert await served.store.jobs.active() == []
    await ravi.message_of(await ravi.imagine(prompt="a tiger", image=("fine.png", file_of(shapes(3)))))
    entries = await served.store.moderation.entries(GUILD_ID, limit=9)
    assert [(entry.act, entry.reason) for entry in entries] == [
        (Act.KNOWN, ""),
        (Act.KNOWN, ""),
        (Act.KNOWN, "a leak"),
    ]


async def test_pictures_are_blocked_shown_and_removed_by_name(
    served: Served, mina: Member, ravi: Member
) -> None:
    assert "No picture is blocked here." in await refusal(mina, await mina.use("known show"))
    leak = ("leak.png", file_of(shapes(4)))
    await refusal(mina, await mina.use("known block", picture=leak, reason="a leak"))
    listed = await refusal(mina, await mina.use("known show"))
    [choice] = await mina.autocomplete("known remove", "name", "leak")
    assert choice["value"] in listed
    assert "a leak" in listed
    assert choice["name"] == f"{choice['value']} a leak"
    removed = await refusal(mina, await mina.use("known remove", name=choice["value"], reason="settled"))
    assert removed == f"The picture {choice['value']} is no longer blocked."
    for name in (choice["value"], "nonsense"):
        assert "No blocked picture is called" in await refusal(
            mina, await mina.use("known remove", name=name)
        )
    log = await refusal(mina, await mina.use("audit", act="known"))
    assert "unblocked the picture" in log
    assert "settled" in log
    await ravi.message_of(await ravi.imagine(prompt="a tiger", image=leak))
