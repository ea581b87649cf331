"""The commands keep Discord's rules in every language, and are registered only when they changed."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import discord
import pytest
from discord import app_commands

from bot.config import Config, ModelConfig
from bot.front.features import commands, menus
from bot.front.gateway.command_tree import Tree, make_menu
from bot.front.gateway.registration import TOO_LARGE, refusal, unchanged
from bot.front.gateway.translator import CatalogueTranslator
from sdjax_engine.request import SAMPLER_NAMES, ControlType, Offer, Sampler

OFFER = Config().models[0].offer
CONTROLLED = replace(
    OFFER, controlnets=("net",), control_types=((ControlType.LINES, "net"), (ControlType.EDGES, "net"))
)
PROMPTED = replace(CONTROLLED, image_prompts=True)
REFERRED = replace(PROMPTED, references=2)
OTHER = ModelConfig(name="other", checkpoint="some/model", max_steps=80).offer
# Discord's pattern, less the two scripts that Python's \w covers only in part.
NAME = re.compile(r"[-_'\w]{1,32}")


async def payload(*offers: Offer) -> list[dict[str, Any]]:
    """What would be sent to Discord."""
    async with discord.Client(intents=discord.Intents.none()) as client:
        tree = app_commands.CommandTree(client)
        await tree.set_translator(CatalogueTranslator())
        return [
            await command.get_translated_payload(tree, CatalogueTranslator()) for command in commands(offers)
        ]


async def menu_payload() -> list[dict[str, Any]]:
    """The menus as they would be sent to Discord."""
    async with discord.Client(intents=discord.Intents.none()) as client:
        tree = app_commands.CommandTree(client)
        return [await menu.get_translated_payload(tree, CatalogueTranslator()) for menu in menus([REFERRED])]


def option(commands: list[dict[str, Any]], name: str) -> dict[str, Any]:
    imagine = next(command for command in commands if command["name"] == "imagine")
    return next(option for option in imagine["options"] if option["name"] == name)


async def test_names_and_descriptions_keep_discords_rules_in_every_language() -> None:
    found = await payload(OFFER, OTHER)
    for item in [*found, *(option for command in found for option in command["options"])]:
        names = {"en": item["name"], **item["name_localizations"]}
        descriptions = {"en": item["description"], **item["description_localizations"]}
        assert names.keys() == descriptions.keys() == {"en", "ko", "zh-CN", "zh-TW"}
        for name in names.values():
            assert NAME.fullmatch(name), name
            assert name == name.lower()
        assert all(1 <= len(description) <= 100 for description in descriptions.values())
        assert descriptions["ko"] != descriptions["en"] != descriptions["zh-CN"]


async def test_menus_have_names_alone_and_differ_in_every_language() -> None:
    found = await menu_payload()
    assert [menu["name"] for menu in found] == [
        "Use this recipe",
        "Paint from this picture",
        "Keep this composition",
        "Like this picture",
        "Change this picture",
        "Made by AI?",
        "Report this picture",
        "Whose picture is this?",
    ]
    for menu in found:
        assert menu["type"] == 3
        assert "description" not in menu
        assert "options" not in menu
        assert menu["name_localizations"].keys() == {"ko", "zh-CN", "zh-TW"}
        assert all(1 <= len(name) <= 32 for name in menu["name_localizations"].values())
    for locale in ("ko", "zh-CN"):
        assert len({menu["name_localizations"][locale] for menu in found}) == len(found)


def menu_named(name: str) -> app_commands.ContextMenu:
    return make_menu(name=app_commands.locale_str(name), run=AsyncMock())


@pytest.mark.parametrize("guilds", [[], [discord.Object(1), discord.Object(2)]])
async def test_fifteen_menus_are_taken_in_each_place_and_not_one_more(guilds: list[discord.Object]) -> None:
    places = guilds or [None]
    async with discord.Client(intents=discord.Intents.none()) as client:
        tree = Tree(client)
        for number in range(15):
            tree.add_command(menu_named(f"Menu {number}"), guilds=guilds)
        with pytest.raises(app_commands.CommandLimitReached, match="15"):
            tree.add_command(menu_named("One more"), guilds=guilds)
        with pytest.raises(app_commands.CommandAlreadyRegistered):
            tree.add_command(menu_named("Menu 3"), guilds=guilds)
        tree.add_command(menu_named("Menu 3"), guilds=guilds, override=True)
        tree.add_command(menu_named("Elsewhere"), guild=discord.Object(9))
        for place in places:
            named = [menu.name for menu in tree.get_commands(guild=place)]
            assert sorted(named) == sorted(f"Menu {number}" for number in range(15))
            tree.clear_commands(guild=place)
            assert tree.get_commands(guild=place) == []


async def test_names_differ_within_a_command_in_every_language() -> None:
    found = await payload(OFFER, OTHER)
    for siblings in [found, *(command["options"] for command in found)]:
        for locale in ("ko", "zh-CN"):
            names = [item["name_localizations"][locale] for item in siblings]
            assert len(set(names)) == len(names)


def files_of(command: dict[str, Any]) -> Iterator[tuple[str, list[str] | None]]:
    """Yield each option that takes a file, and its types."""
    for each in command.get("options", []):
        if each["type"] == discord.AppCommandOptionType.attachment.value:
            yield each["name"], each.get("file_types")
        yield from files_of(each)


async def test_discord_is_told_that_every_file_is_a_picture() -> None:
    found = await payload(REFERRED)
    typed = [each for command in found for each in files_of(command)]
    assert dict(typed).keys() == {
        *("image", "mask", "control", "image_prompt", "reference", "reference_2", "picture"),
    }
    assert all(types == ["image"] for _, types in typed)
    without = copy.deepcopy(found)
    del option(without, "mask")["file_types"]
    assert not unchanged(found, without)


async def test_limits_are_known_to_discord() -> None:
    found = await payload(OFFER)
    assert (option(found, "variants")["min_value"], option(found, "variants")["max_value"]) == (1, 9)
    assert option(found, "seed")["max_value"] == 2**32 - 1
    assert option(found, "guidance")["max_value"] == 30.0
    assert option(found, "prompt")["required"]
    assert not any(option(found, name)["required"] for name in ("size", "seed", "sampler", "private"))
    assert option(found, "size")["autocomplete"]
    assert [choice["name"] for choice in option(found, "sampler")["choices"]] == list(SAMPLER_NAMES.values())


async def test_a_sampler_that_no_model_takes_is_not_offered() -> None:
    narrow = replace(OFFER, samplers=(Sampler.EULER, Sampler.LCM))
    other = replace(OTHER, samplers=(Sampler.DDIM, Sampler.EULER))

    async def offered(*offers: Offer) -> list[str]:
        return [choice["value"] for choice in option(await payload(*offers), "sampler")["choices"]]

    assert await offered(narrow, other) == ["ddim", "euler", "lcm"]
    assert len(await offered(narrow, OTHER)) == len(SAMPLER_NAMES)  # its samplers are not known


async def test_loras_can_be_chosen_only_where_some_model_has_any() -> None:
    with pytest.raises(StopIteration):
        option(await payload(OFFER, OTHER), "lora")
    assert option(await payload(OFFER, replace(OTHER, loras=("ink",))), "lora")["autocomplete"]


async def test_control_is_offered_with_the_types_that_some_model_takes() -> None:
    for name in ("control", "control_type", "control_strength"):
        with pytest.raises(StopIteration):
            option(await payload(OFFER, OTHER), name)
    other = replace(OTHER, controlnets=("pose",), control_types=((ControlType.POSE, "pose"),))
    found = await payload(CONTROLLED, other)
    choices = option(found, "control_type")["choices"]
    assert [(each["name"], each["value"]) for each in choices] == [
        ("Its edges", "edges"),
        ("Its lines", "lines"),
        ("It is a pose", "pose"),
    ]
    assert all(each["name_localizations"]["ko"] != each["name"] for each in choices)
    strength = option(found, "control_strength")
    assert (strength["min_value"], strength["max_value"]) == (0, 2)
    assert [menu.name for menu in menus([OFFER])] == [
        menu.name for menu in menus([CONTROLLED]) if menu.name != "Keep this composition"
    ]


async def test_image_prompts_are_offered_where_some_model_takes_them() -> None:
    for name in ("image_prompt", "image_prompt_strength"):
        with pytest.raises(StopIteration):
            option(await payload(CONTROLLED, OTHER), name)
    strength = option(await payload(PROMPTED, OTHER), "image_prompt_strength")
    assert (strength["min_value"], strength["max_value"]) == (0, 1)
    shown = [menu.name for menu in menus([PROMPTED])]
    assert [menu.name for menu in menus([CONTROLLED])] == [
        name for name in shown if name != "Like this picture"
    ]


async def test_as_many_references_are_offered_as_some_model_takes() -> None:
    one = replace(PROMPTED, references=1)
    assert option(await payload(one, OTHER), "reference")["type"] == 11
    for name, offers in (("reference", (PROMPTED,)), ("reference_2", (one, OTHER))):
        with pytest.raises(StopIteration):
            option(await payload(*offers), name)
    everything = replace(REFERRED, sizes=((64, 64), (128, 128)), most_skipped=3, loras=("ink",))
    (command,) = [each for each in await payload(everything, OTHER) if each["name"] == "imagine"]
    assert len(command["options"]) <= 25  # Discord's limit
    shown = [menu.name for menu in menus([REFERRED])]
    assert [menu.name for menu in menus([PROMPTED])] == [
        name for name in shown if name != "Change this picture"
    ]


async def test_clip_skip_reaches_as_far_as_the_model_that_skips_most() -> None:
    with pytest.raises(StopIteration):
        option(await payload(OFFER, OTHER), "clip_skip")
    found = option(
        await payload(replace(OFFER, most_skipped=3), replace(OTHER, most_skipped=11)), "clip_skip"
    )
    assert (found["min_value"], found["max_value"]) == (1, 12)


async def test_steps_reach_as_far_as_the_model_that_takes_most() -> None:
    few = replace(OFFER, max_steps=30)
    assert option(await payload(few), "steps")["max_value"] == 30
    assert option(await payload(few, OTHER), "steps")["max_value"] == 80


async def test_a_model_can_be_chosen_only_where_there_are_several() -> None:
    with pytest.raises(StopIteration):
        option(await payload(OFFER), "model")
    choices = option(await payload(OFFER, OTHER), "model")["choices"]
    assert [choice["value"] for choice in choices] == ["demo", "other"]


def as_discord_has_it(defined: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The commands `defined` as Discord returns them: with ids, and without empty and false values."""
    found = copy.deepcopy(defined)
    for number, command in enumerate(found):
        command |= {"id": str(number), "application_id": "1", "version": "2", "dm_permission": True}
        rights = command["default_member_permissions"]
        command |= {"default_member_permissions": None if rights is None else str(rights), "nsfw": False}
        for one in command["options"]:
            for key in ("required", "choices", "autocomplete"):
                if not one.get(key):
                    one.pop(key, None)
        if not command["options"]:
            del command["options"]
    return found[::-1]


async def test_the_same_definition_is_not_registered_again() -> None:
    defined = await payload(OFFER, OTHER)
    assert unchanged(defined, as_discord_has_it(defined))
    described = [{**menu, "id": "9", "description": "", "version": "1"} for menu in await menu_payload()]
    both = defined + await menu_payload()
    assert unchanged(both, as_discord_has_it(defined) + described)
    assert not unchanged(both, as_discord_has_it(defined) + described[1:])
    renamed = [{**described[0], "name_localizations": {"ko": "다른"}}, described[1]]
    assert not unchanged(both, as_discord_has_it(defined) + renamed)


@pytest.mark.parametrize(
    "change",
    [
        lambda command: command.update(description="Something else."),
        lambda command: command["name_localizations"].update(ko="다른"),
        lambda command: command["name_localizations"].pop("zh-TW"),
        lambda command: command["options"].pop(),
        lambda command: command["options"].reverse(),
        lambda command: command["options"][2].update(max_value=8),
        lambda command: command["options"][3].pop("autocomplete"),
        lambda command: command["options"][7]["choices"].pop(),
        lambda command: command["options"][7]["choices"][0].update(value="other"),
        lambda command: command.update(name="paint"),
        lambda command: command.update(default_member_permissions="8192"),
    ],
)
async def test_any_change_is_registered(change: Any) -> None:
    defined = await payload(OFFER, OTHER)
    registered = as_discord_has_it(defined)
    change(registered[-1])
    assert registered[-1]["options"] is not None
    assert not unchanged(defined, registered)


async def test_whose_settings_is_chosen_in_the_language_of_the_person() -> None:
    settings = next(command for command in await payload(OFFER) if command["name"] == "settings")
    found = settings["options"][0]["choices"]
    assert [choice["value"] for choice in found] == ["me", "channel", "server"]
    assert [choice["name_localizations"]["ko"] for choice in found] == [
        "내 설정",
        "이 채널의 설정",
        "이 서버의 설정",
    ]
    assert "name_localizations" not in option(await payload(OFFER), "sampler")["choices"][0]


@pytest.mark.parametrize(
    ("errors", "mistakes"),
    [
        (
            {"1": {"options": {"0": {"choices": {"1": {"name": {"_errors": [{"message": "Too long."}]}}}}}}},
            "command 'paint', option 'model', choice 'SDXL', name: Too long",
        ),
        (
            {
                "0": {"_errors": [{"message": "One."}, {"message": "Two."}]},
                "1": {"options": {"_errors": [{"message": "Three."}]}},
            },
            "command 'help': One; command 'help': Two; command 'paint', options: Three",
        ),
        (
            {
                "7": {"name": {"_errors": [{"message": "Odd."}]}},
                "1": {"x": {"0": {"_errors": [{"message": "Y."}]}}},
            },
            "commands, 7, name: Odd; command 'paint', x, 0: Y",
        ),
        (
            {"_errors": [{"code": TOO_LARGE, "message": "Command exceeds maximum size (8000)"}]},
            "commands: Command exceeds maximum size (8000); the largest is 'paint'",
        ),
        ({"_errors": [{"message": "Invalid Form Body"}]}, "commands: Invalid Form Body"),
        (
            {"0": {"name": ["Required."]}, "1": {"_errors": [{"code": "ODD"}]}},
            "command 'help', name: ['Required.']; command 'paint': {'code': 'ODD'}",
        ),
        ({"_errors": ["Odd."]}, "commands: Odd"),
        ({"_errors": {"code": "ODD"}}, "commands, _errors, code: ODD"),
    ],
)
def test_a_refusal_names_what_discord_refuses(errors: dict[str, Any], mistakes: str) -> None:
    options = [{"name": "model", "choices": [{"name": "SD"}, {"name": "SDXL"}]}]
    sentence = refusal(errors, [{"name": "help"}, {"name": "paint", "options": options}])
    assert sentence.startswith(f"Discord refuses the commands: {mistakes}. Change the")


def test_the_largest_command_is_the_one_in_which_discord_counts_the_most_characters() -> None:
    texts = dict.fromkeys(("ko", "zh-CN", "zh-TW"), "x" * 30)
    translated = [{"name": "n", "name_localizations": texts, "value": "v"}] * 25
    long = [{"name": "n", "value": "v" * 50}] * 25
    sent = [
        {"name": name, "description": "d", "options": [{"name": "o", "description": "d", "choices": choices}]}
        for name, choices in (("translated", translated), ("long", long))
    ]
    error = {"_errors": [{"code": TOO_LARGE, "message": "Command exceeds maximum size (8000)"}]}
    assert "; the largest is 'long'." in refusal(error, sent)
