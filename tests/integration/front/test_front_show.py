"""/show and the search of /history, as members of a server see them."""

from __future__ import annotations

from front_tools import ephemeral, finished, refusal, text_of
from recipes import origin, recipe
from results import shows_result
from serving import Served

from bot.sandbox.client import Member
from bot.sandbox.community import PEOPLE

RAVI = PEOPLE[1].id


async def test_a_result_is_shown_again_by_its_id_to_the_person_alone(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a boat")
    for member in (ravi, omar):
        interaction = await member.use("show", job=f" {job.id.upper()} ")
        again = await member.message_of(interaction, shows_result)
        assert ephemeral(again)
        assert "a boat" in text_of(again)
        assert await member.pictures(again) == await member.pictures(message)


async def test_a_private_result_is_unknown_to_others(served: Served, ravi: Member, omar: Member) -> None:
    job, _ = await finished(served, ravi, "a secret", private=True)
    unknown = "The bot does not have this picture, or no longer has it."
    assert await refusal(omar, await omar.use("show", job=job.id)) == unknown
    assert await refusal(omar, await omar.use("show", job="nothing")) == unknown
    assert ephemeral(await ravi.message_of(await ravi.use("show", job=job.id)))


async def test_history_is_searched_and_its_pages_keep_the_words(served: Served, ravi: Member) -> None:
    for number in range(1, 13):
        for words in (f"a boat {number}", f"a moon {number}"):
            key = 2 * number + words.startswith("a boat")
            await served.store.jobs.enqueue(recipe(prompt=words), origin(key, user_id=RAVI))
    message = await ravi.message_of(await ravi.use("history", search="  BOAT  a "))
    text = text_of(message)
    assert "Your requests with “BOAT a”" in text
    assert "boat 12" in text
    assert "boat 3" in text
    assert "moon" not in text
    await ravi.press(message, "Older")
    older = await ravi.wait_for_message(
        lambda seen: "boat 2" in text_of(seen) and "boat 12" not in text_of(seen)
    )
    assert "moon" not in text_of(older)
    none = await ravi.message_of(await ravi.use("history", search="`@everyone`"))
    assert "None of your requests has these words" in text_of(none)
