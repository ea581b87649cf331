"""Reviews, reports and appeals as members and moderators meet them, with a real client on the sandbox."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import PIL.Image
import pytest
from front_tools import Message, ephemeral, give_role, job_of, queued, refusal, text_of
from page_place import page_of
from results import shows_result
from serving import Served, until
from test_front_pictures import picture

from bot.domain.jobs import Job
from bot.sandbox.client import Member
from bot.sandbox.community import CHANNELS, GUILD_ID, PEOPLE
from bot.sandbox.component_rules import walk
from bot.sandbox.objects import IS_SPOILER
from bot.sandbox.permissions import Permission
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.moderation.policies import PolicyScope
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.rows.audit import Act, By

MINA, RAVI, YUNA, OMAR, WEI = (person.id for person in PEOPLE)
GENERAL, ART, _, MODS = (channel.id for channel in CHANNELS)
NAVY = (0, 0, 128)
BY = By(actor_id=MINA, guild_id=GUILD_ID)
REPORT = "Report this picture"
CASES = "Look at one, and decide it"


@pytest.fixture(autouse=True)
def _wei_moderates(lenient: Sandbox) -> None:
    give_role(lenient, WEI, Permission.MANAGE_MESSAGES)


@pytest.fixture
async def wei(sandbox: Sandbox) -> AsyncIterator[Member]:
    async with Member(sandbox.address, "Wei", channel="general") as wei:
        yield wei


async def watch(store: Store) -> None:
    """Hold every picture of the channel art for review, which moderators do in the channel general."""
    await store.policies.put(PolicyScope.CHANNEL, ART, {"review": True}, BY)
    await store.reviews.set_channel(GENERAL, BY)


async def painted(served: Served, member: Member, prompt: str, **options: Any) -> tuple[Job, Message]:
    """A painted job and its message."""
    message = await queued(member, prompt, **options)
    return await served.paint((await job_of(served.store, prompt)).id), message


async def review_of(moderator: Member, prompt: str) -> Message:
    """The moderators' message about a prompt, with its buttons."""
    return await moderator.wait_for_message(
        lambda message: prompt in text_of(message) and has_button(message, "review:"), channel="general"
    )


async def appealed(member: Member, message: Message, words: str) -> str:
    """Press *Appeal* under a message, and submit the form; return the interaction of the form."""
    return await member.submit(await member.modal_of(await member.press(message, "Appeal")), words=words)


def has_button(message: Message, custom_id: str) -> bool:
    return custom_id in str(message["components"])


def option_of(message: Message) -> str:
    """The value of the first option of a message's menu."""
    (first, *_) = (option for _, part in walk(message["components"]) for option in part.get("options", []))
    return str(first["value"])


async def pictured(member: Member, message: Message) -> Message:
    """Wait until a message shows its picture, and return it."""
    return await member.wait_for_message(lambda seen: seen["id"] == message["id"] and shows_result(seen))


async def says(member: Member, message: Message, words: str, *, channel: str | None = None) -> Message:
    """Wait until a message has these words, and return it."""
    return await member.wait_for_message(
        lambda seen: seen["id"] == message["id"] and words in text_of(seen), channel=channel
    )


async def test_a_held_picture_is_seen_by_moderators_alone_until_they_let_it_through(
    served: Served, mina: Member, ravi: Member, wei: Member
) -> None:
    told = await mina.message_of(await mina.use("review channel", channel="general"), channel="general")
    assert text_of(told).strip() == (
        "Moderators see reviews in this channel from now on. "
        "Every member can see this channel: make it private."
    )
    await served.store.policies.put(PolicyScope.CHANNEL, ART, {"review": True}, BY)
    job, message = await painted(served, ravi, "a quiet pond")
    held = await says(ravi, message, "1 picture is painted and waiting for moderators")
    assert held["attachments"] == []
    review = await review_of(wei, "a quiet pond")
    assert covers(review)
    assert f"<@{RAVI}>" in text_of(review)
    await until(lambda: is_linked(served.store))
    listed = text_of(await mina.message_of(await mina.use("review show")))
    assert f"https://discord.com/channels/{GUILD_ID}/{GENERAL}/{review['id']}" in listed
    denied = await ravi.press(review, "Approve")
    assert "You need the permission Manage Messages" in await refusal_in(ravi, denied)
    await wei.press(review, "Approve")
    shown = await ravi.wait_for_message(lambda seen: seen["id"] == message["id"] and shows_result(seen))
    assert "waiting for moderators" not in text_of(shown)
    over = await says(wei, review, f"<@{WEI}>", channel="general")
    assert (over["attachments"], has_button(over, "review:")) == ([], False)
    (entry,) = await served.store.moderation.entries(GUILD_ID, act=Act.APPROVE, limit=9)
    assert (entry.actor_id, entry.subject_id, entry.after) == (WEI, RAVI, {"kind": "hold", "job": job.id})


async def test_moderators_see_what_was_given_until_they_decide(
    served: Served, mina: Member, ravi: Member
) -> None:
    await watch(served.store)
    await served.store.reviews.set_channel(MODS, BY)
    await painted(served, ravi, "a quiet pond", image=picture((90, 60), NAVY))
    review = await mina.wait_for_message(lambda seen: has_button(seen, "review:"), channel="mods")
    assert "The member gave these pictures, the last ones below: image" in text_of(review)
    assert covers(review)
    assert [file["filename"].rsplit("-", 1)[1] for file in review["attachments"]][1:] == ["init_image.webp"]
    seen = PIL.Image.open(io.BytesIO(await mina.attachment_bytes(review, 1))).convert("RGB")
    assert seen.size == (90, 60)
    assert max(abs(one - other) for one, other in zip(seen.getpixel((5, 5)), NAVY, strict=True)) < 9
    await mina.press(review, "Approve")
    assert (await says(mina, review, f"<@{MINA}>", channel="mods"))["attachments"] == []


async def test_a_channel_of_all_members_shows_nothing_that_was_given_and_the_list_of_reviews_does(
    served: Served, mina: Member, ravi: Member
) -> None:
    await watch(served.store)
    await painted(served, ravi, "a quiet pond", image=picture())
    review = await review_of(mina, "a quiet pond")
    assert "**/review show** shows them to you alone: image" in text_of(review)
    assert len(review["attachments"]) == 1
    listed = await mina.message_of(await mina.use("review show"))
    case = await mina.message_of(await mina.press(listed, CASES, values=[option_of(listed)]))
    assert covers(case)
    assert len(case["attachments"]) == 2


async def test_a_given_picture_whose_file_is_gone_keeps_no_review_from_moderators(
    served: Served, mina: Member, ravi: Member
) -> None:
    await served.store.policies.put(PolicyScope.CHANNEL, ART, {"review": True}, BY)
    message = await queued(ravi, "a quiet pond", image=picture())
    job = await job_of(served.store, "a quiet pond")
    await served.paint(job.id)
    await says(ravi, message, "waiting for moderators")
    await served.artifacts.delete(job.recipe.init_image or "")
    await served.store.reviews.set_channel(MODS, BY)
    review = await mina.wait_for_message(lambda seen: has_button(seen, "review:"), channel="mods")
    assert len(review["attachments"]) == 1


async def test_a_decision_on_the_page_changes_the_messages_in_discord_as_a_button_does(
    served: Served, ravi: Member, wei: Member
) -> None:
    await watch(served.store)
    _, message = await painted(served, ravi, "a quiet pond", variants=2)
    review = await review_of(wei, "a quiet pond")
    (case,) = await served.store.reviews.waiting(GUILD_ID, limit=9)
    async with page_of(served.sandbox, served.store, served.artifacts) as place:
        browser = await place.browser(WEI)
        form = {"act": "reject", "tile": "1", "others": "approve", "reason": "a logo"}
        async with browser.post(
            f"{place.url}/wall/{case.id}/decide", data=form, headers={"Origin": place.url}
        ) as answer:
            assert answer.status == 200
    shown = await ravi.wait_for_message(lambda seen: seen["id"] == message["id"] and shows_result(seen))
    assert "1 picture is not shown: a moderator has decided so." in text_of(shown)
    assert "The moderator's reason: a logo" in text_of(shown)
    over = await says(wei, review, f"<@{WEI}> has approved it", channel="general")
    assert "1 picture of it is not shown." in text_of(over)
    assert (over["attachments"], has_button(over, "review:")) == ([], False)
    entries = await served.store.moderation.entries(GUILD_ID, limit=2)
    assert [(entry.act, entry.actor_id) for entry in entries] == [(Act.REJECT, WEI), (Act.APPROVE, WEI)]


def covers(message: dict[str, Any]) -> bool:
    """Whether every file of a message is marked as a spoiler."""
    return {file.get("flags") for file in message["attachments"]} == {IS_SPOILER}


async def is_linked(store: Store) -> bool:
    return all(review.message_id for review in await store.reviews.waiting(GUILD_ID, limit=9))


async def refusal_in(member: Member, interaction: str) -> str:
    """The sentence that one member alone is told in the moderators' channel."""
    message = await member.wait_for_message(
        lambda seen: (
            ephemeral(seen)
            and bool(text_of(seen).strip())
            and (seen.get("interaction_metadata") or {}).get("id") == interaction
        ),
        channel="general",
    )
    return text_of(message)


async def test_of_several_moderators_the_first_decides_and_the_others_are_told_alone(
    served: Served, mina: Member, ravi: Member, wei: Member
) -> None:
    await watch(served.store)
    _, message = await painted(served, ravi, "a loud pond")
    review = await review_of(wei, "a loud pond")
    form = await mina.modal_of(await mina.press(review, "Reject"))
    await wei.press(review, "Spoiler")
    await says(wei, review, f"<@{WEI}>", channel="general")
    late = await mina.submit(form, reason="no")
    assert "decided already" in await refusal_in(mina, late)
    shown = await ravi.wait_for_message(lambda seen: seen["id"] == message["id"] and shows_result(seen))
    assert covers(shown)
    original = await ravi.message_of(
        await ravi.press(shown, "Files"), lambda seen: ephemeral(seen) and shows_result(seen)
    )
    assert covers(original)
    assert [entry.act for entry in await served.store.moderation.entries(GUILD_ID, limit=9)][:1] == [
        Act.COVER
    ]


async def test_a_reported_picture_that_moderators_cover_is_a_covered_file_in_the_same_message(
    served: Served, mina: Member, ravi: Member, wei: Member
) -> None:
    await served.store.reviews.set_channel(GENERAL, BY)
    _, message = await painted(served, ravi, "a bare pond")
    message = await pictured(ravi, message)
    assert not covers(message)
    form = await wei.modal_of(await wei.menu(message, REPORT))
    await wei.submit(form, reason="bare")
    review = await review_of(mina, "a bare pond")
    await mina.press(review, "Spoiler")
    shown = await ravi.wait_for_message(lambda seen: seen["id"] == message["id"] and covers(seen))
    assert shown["attachments"][0]["filename"].startswith("SPOILER_")


async def test_a_rejected_artist_reads_why_appeals_once_and_hears_the_answer(
    served: Served, mina: Member, ravi: Member, wei: Member
) -> None:
    await watch(served.store)
    _, message = await painted(served, ravi, "a dark pond")
    review = await review_of(wei, "a dark pond")
    await wei.submit(await wei.modal_of(await wei.press(review, "Reject")), reason="*too* dark")
    rejected = await says(ravi, message, "The moderator's reason: \\*too\\* dark")
    assert rejected["attachments"] == []
    assert "looks" not in await refusal(mina, await mina.press(rejected, "Appeal"))
    told = await refusal(ravi, await appealed(ravi, rejected, "a pond is *harmless*, @everyone"))
    assert told.strip().startswith("Moderators of this server will look at it again.")
    again = await refusal(ravi, await ravi.press(rejected, "Appeal"))
    assert "already" in again
    appeal = await wei.wait_for_message(lambda seen: has_button(seen, "review:decline"), channel="general")
    assert appeal["attachments"]
    for said in (
        f"<@{WEI}> has rejected it",
        "The moderator's reason: \\*too\\* dark",
        "The member says: a pond is \\*harmless\\*, @\u200beveryone",
        "No earlier appeals in this server.",
    ):
        assert said in text_of(appeal)
    block = await wei.modal_of(await wei.press(appeal, "Block member"))  # a decision takes the buttons away
    await wei.submit(await wei.modal_of(await wei.press(appeal, "Decline")), reason="still")
    declined = await says(ravi, message, "Moderators have declined the appeal, so this stands.")
    assert not has_button(declined, "appeal:")
    blocked = await wei.submit(block, reason="enough")
    assert f"<@{RAVI}>" in await refusal_in(wei, blocked)
    assert len(await served.store.moderation.in_force(GUILD_ID)) == 1


async def test_the_button_leaves_an_old_private_result_in_place_once_it_was_used(
    served: Served, sandbox: Sandbox, ravi: Member, wei: Member
) -> None:
    """The request's own token has expired by then; the press brings another for the same message."""
    await watch(served.store)
    _, message = await painted(served, ravi, "a dark pond", private=True)
    review = await review_of(wei, "a dark pond")
    await wei.submit(await wei.modal_of(await wei.press(review, "Reject")), reason="too dark")
    rejected = await says(ravi, message, "The moderator's reason: too dark")
    opened = await ravi.modal_of(await ravi.press(rejected, "Appeal"))
    sandbox.misbehave(expire_tokens=True)
    await refusal(ravi, await ravi.submit(opened, words=""))
    asked = await ravi.wait_for_message(
        lambda seen: seen["id"] == message["id"] and not has_button(seen, "appeal:")
    )
    assert "too dark" in text_of(asked)
    appeal = await wei.wait_for_message(lambda seen: has_button(seen, "review:decline"), channel="general")
    await wei.submit(await wei.modal_of(await wei.press(appeal, "Decline")), reason="")
    declined = await says(ravi, message, "Moderators have declined the appeal, so this stands.")
    assert "The moderator's reason: too dark" in text_of(declined)


async def test_a_rule_may_hold_what_it_finds_and_a_refused_prompt_is_painted_after_an_appeal(
    served: Served, mina: Member, ravi: Member, wei: Member
) -> None:
    await served.store.reviews.set_channel(GENERAL, BY)
    rules = served.store.prompt_rules
    opened = await mina.modal_of(await mina.use("rules add", name="Blades", action="hold"))
    await mina.message_of(await mina.submit(opened, name="Blades", terms="sword", also=""))
    await rules.put(PromptRule(name="Fog", action=Action.REFUSE, terms=("fog",)), BY)
    job, _ = await painted(served, ravi, "a sword in a stone")
    assert job.hold is not None
    review = await review_of(wei, "a sword in a stone")
    assert "Held by the rule Blades." in text_of(review)
    assert not [seen for seen in await ravi.messages() if "a sword in a stone" in str(seen)]
    await wei.press(review, "Approve")
    await ravi.wait_for_message(lambda seen: "a sword in a stone" in text_of(seen) and shows_result(seen))
    interaction = await ravi.imagine(prompt="a fog and a sword")
    refused = await ravi.wait_for_message(lambda seen: has_button(seen, "appeal:refused:"))
    assert "Fog" in await refusal(ravi, interaction)
    await appealed(ravi, refused, "my own poem")
    appeal = await wei.wait_for_message(
        lambda seen: "a fog and a sword" in text_of(seen) and has_button(seen, "review:accept"),
        channel="general",
    )
    assert "Refused by the rule Fog." in text_of(appeal)
    assert "The member says: my own poem" in text_of(appeal)
    await wei.press(appeal, "Accept")
    await says(wei, appeal, f"<@{WEI}> has accepted the appeal", channel="general")
    await served.paint((await job_of(served.store, "a fog and a sword")).id)
    await ravi.wait_for_message(lambda seen: "a fog and a sword" in text_of(seen) and shows_result(seen))
    # A declined appeal of a person who takes no direct messages: the next answer tells them.
    interaction = await ravi.imagine(prompt="fog alone")
    refused = await ravi.wait_for_message(
        lambda seen: has_button(seen, "appeal:refused:") and interaction in str(seen)
    )
    await ravi.accept_dms(False)
    await appealed(ravi, refused, "")
    appeal = await wei.wait_for_message(
        lambda seen: "fog alone" in text_of(seen) and has_button(seen, "review:decline"), channel="general"
    )
    assert "1 earlier appeal in this server, 1 accepted." in text_of(appeal)
    await wei.submit(await wei.modal_of(await wei.press(appeal, "Decline")), reason="")
    await says(wei, appeal, f"<@{WEI}>", channel="general")

    async def is_left() -> bool:
        await queued(ravi, "a tree")
        seen = await ravi.messages()
        return any("declined your appeal: fog alone" in text_of(each) for each in seen)

    await until(is_left)


async def test_reports_reach_moderators_and_enough_of_them_hide_the_picture(
    served: Served, mina: Member, ravi: Member, yuna: Member, wei: Member
) -> None:
    await mina.message_of(await mina.use("review channel", channel="general"), channel="general")
    assert "2 reports" in text_of(await mina.message_of(await mina.use("review limits", reports=2, hours=5)))
    _, message = await painted(served, ravi, "a rude gnome")
    message = await pictured(ravi, message)
    form = await yuna.modal_of(await yuna.menu(message, REPORT))
    late = await mina.modal_of(await mina.menu(message, REPORT))
    told = await yuna.message_of(await yuna.submit(form, reason="ugly *hat*"))
    assert ephemeral(told)
    review = await review_of(wei, "a rude gnome")
    assert "1 member has reported this." in text_of(review)
    assert "ugly \\*hat\\*" in text_of(review)
    hidden = text_of(await mina.message_of(await mina.submit(late, reason="me too")))
    assert "The picture is hidden until they have looked at it." in hidden
    gone = await says(ravi, message, "1 picture was reported and is hidden")
    assert gone["attachments"] == []
    assert "운영자의 확인을 기다리고" in await refusal(yuna, await yuna.menu(gone, REPORT))
    await says(wei, review, "2 members have reported this.", channel="general")
    await wei.press(review, "Approve")
    await pictured(ravi, message)


async def test_no_message_has_words_of_a_person_after_everything_of_theirs_is_deleted(
    served: Served, ravi: Member, mina: Member, wei: Member
) -> None:
    await served.store.reviews.set_channel(GENERAL, BY)
    _, mine = await painted(served, ravi, "a quokka", variants=2)
    mine = await pictured(ravi, mine)
    await mina.message_of(await mina.press(mine, "U1"), shows_result)
    _, others = await painted(served, mina, "a gnome")
    form = await ravi.modal_of(await ravi.menu(await pictured(mina, others), REPORT))
    await ravi.message_of(await ravi.submit(form, reason="it ate my quokka"))
    form = await mina.modal_of(await mina.menu(mine, REPORT))
    await mina.message_of(await mina.submit(form, reason="ugly"))
    for prompt in ("a quokka", "a gnome"):
        await review_of(wei, prompt)
    await ravi.press(await ravi.message_of(await ravi.use("privacy")), "Delete everything")
    question = await ravi.wait_for_message(lambda seen: "This cannot be undone" in text_of(seen))
    await ravi.press(question, "Delete everything now")
    await ravi.wait_for_message(lambda seen: "1 request was deleted." in text_of(seen))

    async def silent() -> bool:
        seen = [each for place in ("general", "art") for each in await wei.messages(place)]
        return not any("quokka" in str(each) or str(RAVI) in text_of(each) for each in seen)

    await until(silent)
    assert await review_of(wei, "a gnome"), "what Ravi reported is still to be reviewed"


async def test_words_that_a_rule_holds_are_hidden_from_others_in_the_queue(
    served: Served, ravi: Member, wei: Member
) -> None:
    await served.store.prompt_rules.put(PromptRule(name="Blades", action=Action.HOLD, terms=("sword",)), BY)
    await ravi.message_of(await ravi.imagine(prompt="a sword in a stone"))
    assert "a sword in a stone" in text_of(await ravi.message_of(await ravi.use("queue")))
    others = text_of(await wei.message_of(await wei.use("queue")))
    assert "*已隐藏*" in others
    assert "sword" not in others


async def test_without_a_channel_moderators_decide_in_the_list_and_everybody_is_told_what_is_so(
    served: Served, mina: Member, ravi: Member, yuna: Member
) -> None:
    form = await mina.modal_of(await mina.use("policy set", what="who"))
    told = text_of(await mina.message_of(await mina.submit(form, review=["1"])))
    assert "No channel shows what waits for moderators" in told
    _, message = await painted(served, ravi, "a lost pond")
    listed = await mina.message_of(await mina.use("review show"))
    case = await mina.message_of(await mina.press(listed, CASES, values=[option_of(listed)]))
    assert ephemeral(case)
    assert "a lost pond" in text_of(case)
    assert len(case["attachments"]) == 1
    await mina.press(case, "Approve")
    decided = await says(mina, case, "has approved it")
    assert decided["attachments"] == []
    shown = await pictured(ravi, message)
    report = await yuna.modal_of(await yuna.menu(shown, REPORT))
    told = text_of(await yuna.message_of(await yuna.submit(report, reason="no")))
    assert "아직 검토 채널을 정하지 않아" in told
