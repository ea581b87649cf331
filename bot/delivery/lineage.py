"""Links between messages: the message of a job, and the message of the job that it came from."""

from __future__ import annotations

from collections.abc import Iterator

from bot.domain.jobs import Descent, Job, Parent
from bot.texts.catalogue import Texts

DIRECT = "@me"  # stands for the server in addresses of direct messages
MESSAGE_ADDRESS = "https://discord.com/channels/{place}/{channel}/{message}"


def message_address(job: Job) -> str | None:
    """Return the address of a job's message; None for one that is gone or was private.

    A private result, or one whose channel was closed, may have been sent as a direct message.
    """
    if job.message_id is None or job.deleted_at is not None:
        return None
    if (direct := job.message_channel_id) is not None:
        return MESSAGE_ADDRESS.format(place=DIRECT, channel=direct, message=job.message_id)
    if job.origin.private:
        return None
    place = job.origin.guild_id or DIRECT
    return MESSAGE_ADDRESS.format(place=place, channel=job.origin.channel_id, message=job.message_id)


def parent_line(job: Job, texts: Texts) -> Iterator[str]:
    """Yield the message that a job came from, as a link if everyone here can see that message."""
    parent = job.origin.parent
    if parent is None:
        return
    address = _parent_address(job, parent)
    if parent.descent is Descent.SINGLE and parent.index is not None:
        grid = _link(texts.gettext("this grid"), address) if address else texts.gettext("a grid")
        yield texts.gettext("picture {number} of {grid}", number=parent.index + 1, grid=grid)
    elif address is not None:
        source = _link(texts.gettext("this message"), address)
        yield texts.gettext("made from {source}", source=source)


def _link(words: str, address: str) -> str:
    return f"[{words}]({address})"


def _parent_address(job: Job, parent: Parent) -> str | None:
    if parent.message_id is None or parent.channel_id is None:
        return None
    place = job.origin.guild_id or DIRECT
    return MESSAGE_ADDRESS.format(place=place, channel=parent.channel_id, message=parent.message_id)
