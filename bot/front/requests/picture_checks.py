"""Pictures that people send, hashed outside the event loop, and compared with blocked pictures."""

from __future__ import annotations

from bot.domain.errors import UserMistake
from bot.domain.hashes import hash_of_file
from bot.front.services.patience import patiently
from bot.front.services.services import Interaction, sender_of, services_of
from bot.front.uploads.sent_file import SentFile


async def clean_sent(interaction: Interaction, file: SentFile) -> bytes:
    """Fetch a file and return it cleaned; raises UserMistake and InvalidRequest."""
    attachments = services_of(interaction).attachments
    async with attachments.turn(sender_of(interaction)) as turn:
        picture = await attachments.picture(file.address, what=file.what, turn=turn)
    return picture.png


async def hash_sent(interaction: Interaction, file: SentFile) -> int:
    """Fetch and clean a file, and return its hash; raises as `clean_sent`."""
    png = await clean_sent(interaction, file)
    return await services_of(interaction).hashing.run(hash_of_file, png)


async def refuse_blocked(interaction: Interaction, png: bytes, *, what: str) -> None:
    """Raise UserMistake `start_known` for a cleaned picture that is blocked here, or like a blocked one."""
    services = services_of(interaction)
    number = await services.hashing.run(hash_of_file, png)
    blocking = services.store.known.blocking
    if await patiently(blocking, interaction.guild_id, number) is not None:
        raise UserMistake("start_known", what=what)
