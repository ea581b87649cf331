"""Tools of the front's tests: actions and texts of members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from results import shows_result
from serving import Served

from bot.domain.jobs import Job
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.sandbox.modal_rules import inputs
from bot.sandbox.permissions import Permission
from bot.sandbox.server import Sandbox
from bot.sandbox.state import Role
from bot.store import Store

EPHEMERAL = 64
ROLE_IDS = GUILD_ID + 900
Message = dict[str, Any]


def text_of(message: Message) -> str:
    """All text that a message shows."""

    def texts(components: list[dict[str, Any]]) -> Iterator[str]:
        for component in components:
            if "content" in component:
                yield component["content"]
            yield from texts(component.get("components", []))

    return "\n".join([message["content"], *texts(message["components"])])


def ephemeral(message: Message) -> bool:
    return bool(message["flags"] & EPHEMERAL)


async def queued(member: Member, prompt: str, **options: Any) -> Message:
    """Request a picture and wait for the message that shows it in the queue."""
    return await member.message_of(await member.imagine(prompt=prompt, **options))


async def refusal(member: Member, interaction: str) -> str:
    """Return the private sentence of an answer."""
    said = await member.message_of(interaction, lambda message: ephemeral(message) and bool(text_of(message)))
    return text_of(said)


async def job_of(store: Store, prompt: str) -> Job:
    (job,) = [job for job in await store.jobs.active() if job.recipe.prompt == prompt]
    return job


async def finished(served: Served, member: Member, prompt: str, **options: Any) -> tuple[Job, Message]:
    """A finished job and the message that shows its picture."""
    interaction = await member.imagine(prompt=prompt, **options)
    await member.message_of(interaction)
    job = await served.paint((await job_of(served.store, prompt)).id)
    return job, await member.message_of(interaction, shows_result)


def give_role(sandbox: Sandbox, user_id: int, permissions: Permission) -> int:
    """Give a member a role with these rights, before the bot is told of the server; return the role's id."""
    world = sandbox._core.world
    role = Role(id=ROLE_IDS + len(world.roles), name="of tests", permissions=int(permissions), position=1)
    world.roles[role.id] = role
    world.members[user_id].roles += (role.id,)
    return role.id


def offer_to_all(sandbox: Sandbox) -> None:
    """Offer every command to every member, as an owner can in the settings of a server."""
    for command in sandbox._core.commands.all("global"):
        command["default_member_permissions"] = None


async def delete(member: Member, message: Message) -> None:
    """Press Delete, submit the form that asks before, and wait for the end of the deletion."""
    await member.submit(await member.modal_of(await member.press(message, "Delete")))
    await gone(member, message)


async def gone(member: Member, message: Message) -> None:
    """Wait until a message is deleted.

    A deletion removes the message of its button last, after the words, the files and the copies.
    """
    await member.wait_for(
        lambda messages: all(each["id"] != message["id"] for each in messages), channel=message["channel_id"]
    )


async def sees(member: Member, message: Message) -> bool:
    """Return whether the member sees a message at this moment."""
    return message["id"] in {each["id"] for each in await member.messages(message["channel_id"])}


def fields(form: dict[str, Any]) -> dict[str, str]:
    """What a form holds: the texts and the preselected values, by the ids of its inputs."""
    return {part["custom_id"]: part.get("value") or "".join(_chosen(part)) for _, part, _ in inputs(form)}


def _chosen(part: dict[str, Any]) -> list[str]:
    return [option["value"] for option in part.get("options", []) if option.get("default")]


async def refused_form(member: Member, interaction: str) -> dict[str, Any]:
    """Press Try again under a refusal, and return the form that it opens."""
    said = await member.message_of(interaction, lambda message: ephemeral(message) and bool(text_of(message)))
    return await member.modal_of(await member.press(said, "Try again"))
