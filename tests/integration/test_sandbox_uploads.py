"""Files that members upload with a command: their objects, their addresses, their expiry."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image
from sandbox_tools import GLOBAL_COMMANDS, FakeClock, Line, MakeBot, MakeMember, Raw

from bot.sandbox.client import Member, RefusedByClient
from bot.sandbox.rules import Limits
from bot.sandbox.server import Sandbox

DAY = 24 * 3600


def png(size: tuple[int, int] = (24, 16)) -> bytes:
    data = BytesIO()
    Image.new("RGB", size, "red").save(data, "PNG")
    return data.getvalue()


def retouch(**image: Any) -> dict[str, Any]:
    """A command that takes a picture, needed unless `image` says otherwise, and a mask."""
    start = {"type": 11, "name": "image", "description": "What to start from", "required": True, **image}
    mask = {"type": 11, "name": "mask", "description": "What to change"}
    return {"name": "retouch", "description": "Change a picture", "options": [start, mask]}


class Studio:
    """Mina, who can use /retouch, and the bot's gateway connection."""

    def __init__(self, bot: Raw, mina: Member, line: Line) -> None:
        self.bot, self.mina, self.line = bot, mina, line

    async def uploaded(self, **files: Any) -> dict[str, Any]:
        """Upload `files` and return what the bot is told of the first."""
        await self.mina.use("retouch", **files)
        asked = await self.line.event("INTERACTION_CREATE")
        answer = {"type": 4, "data": {"content": "thanks"}}
        await self.bot.call("POST", f"/interactions/{asked['id']}/{asked['token']}/callback", answer)
        data = asked["data"]
        (first, *_) = (option["value"] for option in data["options"])
        told: dict[str, Any] = data["resolved"]["attachments"][first]
        assert told["id"] == first
        return told

    async def status(self, url: str) -> int:
        async with self.bot.session.get(url) as served:
            return served.status


@pytest.fixture
async def studio(timed: Sandbox, member: MakeMember) -> AsyncIterator[Studio]:
    async with Raw(timed) as bot:
        await bot.call("PUT", GLOBAL_COMMANDS, [retouch()])
        line = await bot.identify()
        await line.event("GUILD_CREATE")
        yield Studio(bot, await member(timed), line)
    assert timed.violations == []


async def test_the_attachment_object_has_all_of_discords_fields(studio: Studio) -> None:
    picture = png()
    told = await studio.uploaded(image=("두 별 a.png", picture), mask=picture)
    address = urlsplit(told.pop("url"))
    told.pop("proxy_url")
    assert told == {
        "id": told["id"],
        "filename": "__a.png",
        "title": "두 별 a.png",
        "size": len(picture),
        "content_type": "image/png",
        "width": 24,
        "height": 16,
        "ephemeral": True,
    }
    assert address.path.startswith("/ephemeral-attachments/")
    assert address.path.endswith(f"/{told['id']}/__a.png")
    signed = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert int(signed["ex"], 16) - int(signed["is"], 16) == DAY
    assert len(signed["hm"]) == 64


async def test_the_type_of_a_file_is_what_the_member_claims(studio: Studio) -> None:
    told = await studio.uploaded(image=("a.png", b"<script>", "image/png"))
    assert (told["content_type"], "width" in told) == ("image/png", False)
    odd = await studio.uploaded(image=("a.png", b"x", "nothing; charset=x"))
    assert odd["content_type"] == "application/octet-stream"


async def test_an_uploaded_page_cannot_act_as_the_sandboxs_own(studio: Studio) -> None:
    told = await studio.uploaded(image=("a.html", b"<script>alert(1)</script>"))
    async with studio.bot.session.get(told["url"]) as served:
        assert served.content_type == "text/html"
        assert served.headers["Content-Security-Policy"] == "sandbox"
        assert served.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(("side", "seen"), [(12_000, 12_000), (60_000, None)])
async def test_a_decompression_bomb_is_passed_on_without_decoding(
    studio: Studio, side: int, seen: int | None
) -> None:
    picture = png()
    header = picture[12:16] + side.to_bytes(4, "big") * 2 + picture[24:29]
    huge = picture[:12] + header + zlib.crc32(header).to_bytes(4, "big") + picture[33:]
    told = await studio.uploaded(image=huge)
    assert (told["size"], told.get("width")) == (len(huge), seen)


async def test_an_address_expires_after_a_day_and_cannot_be_forged(studio: Studio, clock: FakeClock) -> None:
    url = (await studio.uploaded(image=png()))["url"]
    assert await studio.status(url) == 200
    path, _, query = url.partition("?")
    ends = parse_qs(query)["ex"][0]
    longer = query.replace(ends, f"{int(ends, 16) + DAY:x}", 1)
    for made_up in (path, f"{path}?{longer}", url.replace("image.png", "other.png")):
        assert await studio.status(made_up) == 404
    clock.advance(DAY)
    assert await studio.status(url) == 404


async def test_addresses_expired_by_a_test_are_invalid(studio: Studio, timed: Sandbox) -> None:
    url = (await studio.uploaded(image=png()))["url"]
    timed.misbehave(expire_attachments=True)
    async with studio.bot.session.get(url) as served:
        assert (served.status, await served.text()) == (404, "This content is no longer available.")


async def test_a_message_has_current_addresses_of_its_files(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    await log_in(sandbox)
    mina = await member(sandbox)
    message = await mina.message_of(await mina.imagine(prompt="a star"))
    picture = await mina.pictures(message)
    sandbox.misbehave(expire_attachments=True)
    fresh = next(each for each in (await mina.messages()) if each["id"] == message["id"])
    assert fresh["attachments"][0]["url"] != message["attachments"][0]["url"]
    assert await mina.pictures(fresh) == picture == [await mina.attachment_bytes(fresh)]


async def test_an_invalid_upload_is_refused_and_does_not_reach_the_bot(
    documents: Any, member: MakeMember
) -> None:
    async with Sandbox(observer=documents, limits=Limits(member=1000)) as sandbox, Raw(sandbox) as bot:
        await bot.call("PUT", GLOBAL_COMMANDS, [retouch()])
        mina = await member(sandbox)
        assert (await mina.state())["upload_limit"] == 1000
        for options, said in (
            ({}, "image: this option is required."),
            ({"image": "a.png"}, "image: must be a file."),
            ({"image": 3, "mask": b"x"}, "image: must be a file."),
            ({"image": b"x" * 1001}, "image: image.png has 1001 bytes, a file may have 1000 bytes."),
        ):
            with pytest.raises(RefusedByClient, match=said):
                await mina.use("retouch", **options)
        await mina.use("retouch", image=b"x" * 1000)


async def test_a_file_of_another_type_is_refused_and_does_not_reach_the_bot(
    sandbox: Sandbox, member: MakeMember
) -> None:
    async with Raw(sandbox) as bot:
        answer = await bot.call("PUT", GLOBAL_COMMANDS, [retouch(file_types=["image", ".tar.gz"])])
        assert answer.body[0]["options"][0]["file_types"] == ["image", ".tar.gz"]
        mina = await member(sandbox)
        for name in ("notes.txt", "png", "a.gz", "a.png.exe"):
            with pytest.raises(RefusedByClient, match="is not of a type that is taken: image, "):
                await mina.use("retouch", image=(name, b"x"))
        for name in ("a.PNG", "photo.of.me.jpeg", "a.tar.gz"):
            await mina.use("retouch", image=(name, b"x"), mask=("any.txt", b"x"))


@pytest.mark.parametrize(
    ("odd", "where"),
    [
        ({"file_types": [".png"] * 11}, ("file_types",)),
        ({"file_types": "image"}, ("file_types",)),
        ({"file_types": ["png"]}, ("file_types", "0")),
        ({"file_types": [".png", "image/png"]}, ("file_types", "1")),
        ({"file_types": [".png", 1]}, ("file_types", "1")),
        ({"type": 3, "file_types": ["image"]}, ()),
    ],
)
async def test_malformed_types_of_files_are_refused(
    lenient: Sandbox, odd: dict[str, Any], where: tuple[str, ...]
) -> None:
    async with Raw(lenient) as bot:
        answer = await bot.call("PUT", GLOBAL_COMMANDS, [retouch(**odd)])
    assert answer.code == 50035
    assert answer.error("0", "options", "0", *where)
    assert len(lenient.violations) == 1


@pytest.mark.parametrize(
    "odd",
    [{"autocomplete": True}, {"choices": [{"name": "a", "value": "a"}]}, {"min_length": 1}, {"min_value": 1}],
)
async def test_a_file_option_takes_no_choices_and_no_bounds(lenient: Sandbox, odd: dict[str, Any]) -> None:
    async with Raw(lenient) as bot:
        answer = await bot.call("PUT", GLOBAL_COMMANDS, [retouch(**odd)])
    assert answer.error("0", "options", "0") == "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID"
    assert len(lenient.violations) == 1
