"""Pictures that persons receive are signed, labelled and described."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import PIL.Image
import pytest
from front_tools import ephemeral, finished, job_of, text_of
from manifests import read_manifest
from results import shows_result
from serving import Served, serving, until

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.generation_data import Tool, read_picture
from bot.provenance.certificates import self_made
from bot.provenance.manifests import ManifestSigner, unmarked
from bot.provenance.opening import open_signing
from bot.provenance.signing import Signing
from bot.sandbox.client import Member
from bot.sandbox.component_rules import walk
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.telemetry.metrics import WELL
from sdjax_engine.images import read_recipe


@pytest.fixture
async def signed(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, tmp_path: Path, discord_address: object
) -> AsyncIterator[Served]:
    """The shipped bot, which signs with a self-made certificate."""
    config = Config.parse({"provenance": {"folder": str(tmp_path / "provenance")}})
    signing = open_signing(config.provenance)
    async with serving(sandbox, store, artifacts, config, signing=signing) as served:
        yield served


def is_right(data: bytes) -> bool:
    found = read_manifest(data)
    assert found.wrong == {"signingCredential.untrusted"}
    return (found.state, found.source_type) == ("Valid", "trainedAlgorithmicMedia")


def alts(message: dict[str, object]) -> list[str]:
    return [item["description"] for _, part in walk(message["components"]) for item in part.get("items", [])]


async def test_the_delivered_picture_is_the_painted_one_with_a_valid_manifest(
    signed: Served, ravi: Member
) -> None:
    job, message = await finished(signed, ravi, "boats", seed=5)
    data = await ravi.attachment_bytes(message)
    assert is_right(data)
    (image,) = job.images
    assert image.artifact
    assert unmarked(data) == await signed.artifacts.get(image.artifact)
    read = read_picture(data)
    assert (read.tool, read.prompt, read.seed) == (Tool.OWN, "boats", 5)
    assert alts(message) == ["AI-generated · boats, seed 5"]
    assert "-# AI-generated · seed 5 · " in text_of(message)


async def test_the_operator_can_turn_off_the_label_and_the_manifest(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member, discord_address: object
) -> None:
    config = Config.parse({"provenance": {"sign": False, "label": False}})
    async with serving(sandbox, store, artifacts, config, signing=open_signing(config.provenance)) as served:
        job, message = await finished(served, ravi, "boats", seed=5)
        assert await ravi.attachment_bytes(message) == await artifacts.get(job.images[0].artifact or "")
    assert "AI-generated" not in text_of(message)


class Breakable:
    """A signer that fails while it is broken."""

    room = 5_000

    def __init__(self, *, broken: bool) -> None:
        self.broken = broken

    def sign(self, data: bytes, *_: object, **__: object) -> bytes:
        if self.broken:
            raise OSError("the key is gone")
        return data


async def test_a_picture_that_must_be_signed_and_cannot_be_is_held_until_it_can(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member, discord_address: object
) -> None:
    signer = Breakable(broken=True)
    signing = Signing(signer, required=True)
    async with serving(sandbox, store, artifacts, Config(), signing=signing) as served:
        interaction = await ravi.imagine(prompt="boats", seed=5)
        shown = await ravi.message_of(interaction)
        await served.paint((await job_of(store, "boats")).id)

        async def held() -> bool:
            return "the key is gone" in await signing.health()

        await until(held)
        assert not shown["attachments"]
        signer.broken = False
        message = await ravi.message_of(interaction, shows_result)
        assert await signing.health() == WELL
        signer.broken = True
        answer = await ravi.message_of(
            await ravi.press(message, "Files"), lambda found: ephemeral(found) and bool(found["content"])
        )
        assert "cannot be marked as AI-generated" in answer["content"]


async def test_the_label_of_the_law_is_drawn_on_what_leaves_and_not_on_what_is_kept(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member, discord_address: object
) -> None:
    config = Config.parse({"provenance": {"sign": False, "stamp": "cn", "label": False}})
    async with serving(sandbox, store, artifacts, config, signing=open_signing(config.provenance)) as served:
        job, message = await finished(served, ravi, "boats", seed=5)
        sent, kept = await ravi.attachment_bytes(message), await artifacts.get(job.images[0].artifact or "")
    [shown] = [item for _, part in walk(message["components"]) for item in part.get("items", [])]
    assert shown["description"].startswith("AI-generated")  # for members who cannot see the label
    assert "AI-generated" in text_of(message)
    assert read_recipe(io.BytesIO(sent)) == read_recipe(io.BytesIO(kept))
    with PIL.Image.open(io.BytesIO(sent)) as one, PIL.Image.open(io.BytesIO(kept)) as other:
        assert other.getcolors() == [(one.width * one.height, (128, 128, 128))]
        assert len(one.getcolors()) > 1


async def test_the_manifest_of_a_given_picture_goes_with_it_into_the_result(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member, discord_address: object
) -> None:
    signing = Signing(ManifestSigner(self_made()), starts=artifacts.reader(asyncio.get_running_loop()))
    file = io.BytesIO()
    PIL.Image.linear_gradient("L").convert("RGB").save(file, "JPEG")
    signed, plain = signing.signed(file.getvalue()), file.getvalue()
    nets = {"canny": {"source": "nets/canny", "types": ["edges"]}}
    model = {"references": 1, "controlnets": nets, "image_prompt": "adapter.safetensors"}
    limits = {"files_per_minute": 0}  # what slow decoding costs the sender is not looked at here
    config = Config.parse({"models": [model], "limits": limits})
    cases = (
        ("boats", "image", signed, ["parentOf"]),
        ("foxes", "reference", signed, ["inputTo"]),
        ("ships", "control", signed, ["inputTo"]),
        ("trees", "image_prompt", signed, ["inputTo"]),
        ("houses", "image", plain, []),
    )
    async with serving(sandbox, store, artifacts, config, signing=signing) as served:
        for prompt, option, sent, relations in cases:
            given = {option: ("given.jpg", sent, "image/jpeg")}
            _, message = await finished(served, ravi, prompt, **given)
            found = read_manifest(await ravi.attachment_bytes(message))
            assert found.state == "Valid"
            assert [each["relationship"] for each in found.manifest.get("ingredients", [])] == relations
