"""Pictures that people send, hashed outside the event loop, and compared with blocked pictures."""

from __future__ import annotations

from bot.domain.errors import UserMistake
from bot.domain.hashes import hash_of_file
from bot.front.services.request import Request, patiently
from bot.front.uploads.sent_file import SentFile


async def clean_sent(request: Request, file: SentFile) -> bytes:
    """Fetch a file and return it cleaned; raises UserMistake and InvalidRequest."""
    attachments = request.services.attachments
    async with attachments.turn(request.sender) as turn:
        picture = await attachments.picture(file.address, what=file.what, turn=turn)
    return picture.png


async def hash_sent(request: Request, file: SentFile) -> int:
    """Fetch and clean a file, and return its hash; raises as `clean_sent`."""
    png = await clean_sent(request, file)
    return await request.services.hashing.run(hash_of_file, png)


async def refuse_blocked(request: Request, png: bytes, *, what: str) -> None:
    """Raise UserMistake `start_known` for a cleaned picture that is blocked here, or like a blocked one."""
    services = request.services
    number = await services.hashing.run(hash_of_file, png)
    blocking = services.store.known.blocking
    if await patiently(blocking, request.guild_id, number) is not None:
        raise UserMistake("start_known", what=what)
