"""Reference pictures, which are changed or which the words speak of, with a real client on the sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from front_tools import fields, finished, job_of, refusal, text_of
from serving import Served, serving
from shapes import file_of, shapes
from test_front_pictures import NOT_KEPT, asked, kept, picture
from test_front_remix import opened

from bot.config import Config
from bot.domain.hashes import hash_of_file
from bot.domain.jobs import State
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member, RefusedByClient
from bot.sandbox.community import GUILD_ID
from bot.sandbox.modal_rules import inputs
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.moderation.policies import PolicyScope
from bot.store.rows.audit import By

SIZES = ["128x128", "192x128", "384x256"]
CONFIG = Config.parse({"models": [{"sizes": SIZES, "references": 2}]})
MENU = "Change this picture"
NAVY, GOLD = (0, 0, 128), (255, 215, 0)


@pytest.fixture
async def referred(sandbox: Sandbox, store: Store, artifacts: Artifacts) -> AsyncIterator[Served]:
    async with serving(sandbox, store, artifacts, CONFIG) as served:
        yield served


async def test_references_are_kept_with_their_job_in_order_and_stay_in_what_is_made_from_it(
    referred: Served, ravi: Member, omar: Member
) -> None:
    given = {"reference": picture((180, 120), NAVY), "reference_2": picture((60, 90), GOLD)}
    job, message = await finished(referred, ravi, "a fox", **given)
    recipe = job.recipe
    assert (recipe.width, recipe.height) == (192, 128)  # the shape of the first
    assert [(await kept(referred, name)).getpixel((5, 5)) for name in recipe.given.values()] == [NAVY, GOLD]
    assert "with 2 reference pictures" in text_of(message)
    for label in ("Again", "Vary", "Enlarge"):
        await omar.message_of(await omar.press(message, label))
    form = await omar.modal_of(await omar.press(message, "Remix"))
    await omar.message_of(await omar.submit(form, prompt="a wolf"))
    active = await referred.store.jobs.active()
    assert len(active) == 4
    for each in active:
        assert each.recipe.given.items() >= recipe.given.items()
        assert (await referred.paint(each.id)).state is State.DONE
    gone = await referred.store.deliveries.delete_result(job.id, user_id=job.origin.user_id)
    assert set(recipe.given.values()) <= set(gone)


async def test_a_second_reference_without_a_first_is_the_only_one(referred: Served, ravi: Member) -> None:
    job = await asked(referred, ravi, "a fox", reference_2=picture(colour=GOLD), size="128x128")
    assert list(job.recipe.given) == ["reference_2"]
    assert job.recipe.lane.references == 1


async def test_sizes_are_suggested_of_the_model_that_takes_the_given_picture(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    nets = {"canny": {"source": "nets/canny", "types": ["edges"]}}
    plain = {"name": "plain", "checkpoint": "some/plain", "sizes": ["128x128"]}
    keeping = {"name": "keeping", "checkpoint": "some/keeping", "sizes": ["192x128"], "controlnets": nets}
    config = Config.parse({"models": [plain, keeping]})
    async with serving(sandbox, store, artifacts, config):
        for typed, size in (({}, "128x128"), ({"control_type": "edges"}, "192x128")):
            [choice] = await ravi.autocomplete("imagine", "size", "", prompt="x", **typed)
            assert choice["value"] == size


async def test_a_reference_counts_against_quotas_of_cost_as_much_as_the_picture(
    referred: Served, store: Store, ravi: Member
) -> None:
    quota, by = {"cost_per_hour": 2}, By(actor_id=1, guild_id=GUILD_ID)
    await store.policies.put(PolicyScope.SERVER, GUILD_ID, quota, by)
    both = {"reference": picture(), "reference_2": picture()}
    told = await refusal(ravi, await ravi.imagine(prompt="a fox", size="128x128", **both))
    assert "you have 2 here, 2 are left" in told
    await asked(referred, ravi, "a fox", size="128x128", reference=picture())
    told = await refusal(ravi, await ravi.imagine(prompt="a fox", size="128x128"))
    assert "you have 2 here, 0 are left" in told


async def test_each_mistake_with_references_is_one_sentence(
    referred: Served, store: Store, ravi: Member
) -> None:
    async def told(**options: object) -> str:
        return await refusal(ravi, await ravi.imagine(**{"prompt": "a fox"} | options))

    unreadable = "“reference” is not a picture that can be read: send a PNG, JPEG or WebP file."
    assert await told(reference=b"\x89PNG") == unreadable + NOT_KEPT
    known = file_of(shapes(1))
    await store.known.block(hash_of_file(known), By(actor_id=1, guild_id=GUILD_ID))
    blocked = r"“reference\_2” is blocked here, or almost identical to a blocked picture: choose another."
    assert await told(reference=picture(), reference_2=known) == blocked + NOT_KEPT
    assert "one prompt is painted at a time" in await told(prompt="a {red, blue} fox", reference=picture())
    assert await store.jobs.active() == []


async def test_the_menu_of_a_message_opens_a_form_that_changes_its_picture(
    referred: Served, ravi: Member, omar: Member
) -> None:
    message = await ravi.say("my cat", ("cat.png", picture((180, 120), NAVY)), ("dog.png", picture()))
    form = await omar.modal_of(await omar.menu(message, MENU))
    assert form["title"] == MENU
    assert "Say what to change in a sentence" in str(form["components"][0])
    assert [part["custom_id"] for _, part, _ in inputs(form)] == [
        *("picture", "prompt", "negative_prompt", "settings")
    ]
    await omar.message_of(await omar.submit(form, prompt="make the cat red", picture="0"))
    recipe = (await job_of(referred.store, "make the cat red")).recipe
    assert (recipe.width, recipe.height, list(recipe.given)) == (192, 128, ["reference"])
    assert (await kept(referred, recipe.reference)).getpixel((5, 5)) == NAVY
    job, result = await finished(referred, ravi, "boats", variants=2)
    form = await omar.modal_of(await omar.menu(result, MENU))
    await omar.message_of(await omar.submit(form, prompt="at night", picture="1"))
    assert (await job_of(referred.store, "at night")).recipe.reference == job.images[1].artifact


async def test_a_model_that_takes_fewer_references_refuses_the_form_and_what_was_made_with_more(
    referred: Served, ravi: Member
) -> None:
    said = await ravi.say("my cat", ("cat.png", picture()))
    changing = await ravi.modal_of(await ravi.menu(said, MENU))
    _, message = await finished(referred, ravi, "a fox", reference=picture(), reference_2=picture())
    one, none = (
        Config.parse({"models": [{"sizes": SIZES, "references": most}]}).models[0].offer for most in (1, 0)
    )
    await referred.bot.change_offers((one,))  # as a worker publishes it
    many = "2 reference pictures are not possible with demo: choose at most 1."
    assert many in await refusal(ravi, await ravi.press(message, "Again"))
    for number in ("-1", "3"):
        form = await ravi.modal_of(await ravi.press(message, "Remix"))
        more = fields(form)["settings"].replace("reference 2", f"reference {number}")
        told = await refusal(ravi, await ravi.submit(form, prompt="a lynx", settings=more))
        wrong = f"“reference {number}” is not possible here: choose a number from 0 to 2."
        assert wrong in told.replace("\\", "")
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    first = fields(form)["settings"].replace("reference 2", "reference 1")
    await ravi.message_of(await ravi.submit(form, prompt="a bear", settings=first))
    assert list((await job_of(referred.store, "a bear")).recipe.given) == ["reference"]
    await referred.bot.change_offers((none,))
    lost = "demo takes no reference pictures: leave them out."
    with pytest.raises(RefusedByClient, match="no “Change this picture” in the menu"):
        await ravi.menu(said, MENU)
    assert lost in await refusal(ravi, await ravi.submit(changing, prompt="a tiger"))
    assert lost in await refusal(ravi, await ravi.press(message, "Again"))
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    assert lost in await refusal(ravi, await ravi.submit(form, prompt="a lynx"))
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    without = fields(form)["settings"].replace("reference 2", "reference 0")
    await ravi.message_of(await ravi.submit(form, prompt="a wolf", settings=without))
    assert (await job_of(referred.store, "a wolf")).recipe.given == {}
    form = await opened(ravi, message)
    typed: dict[str, Any] = {"image": picture(), "settings": "reference 0"}
    await ravi.message_of(await ravi.submit(form, prompt="a hare", **typed))
    assert list((await job_of(referred.store, "a hare")).recipe.given) == ["init_image"]
