"""Words that a rule holds for moderators: nobody reads them in a channel before they are let through."""

from __future__ import annotations

from bot.holds import Cause, Outcome
from bot.jobs import Job, Showing
from bot.texts import Texts

LET_THROUGH = (Outcome.SHOWN, Outcome.SPOILER)


def hides_words(job: Job) -> bool:
    """Return whether messages for others than its person leave the words of a job out."""
    held = job.hold is not None and job.hold.cause is Cause.RULE
    return held and (job.ruling is None or job.ruling.outcome not in LET_THROUGH)


def hidden_heading(job: Job, texts: Texts) -> str:
    """Return the text shown instead of the words; moderators never see a job that ended without a picture."""
    waits = not job.state.final or any(image.showing is Showing.HOLD for image in job.images)
    if job.ruling is None and waits:
        return texts.gettext("A rule of this server hides these words until moderators let them through.")
    if job.ruling is None:
        return texts.gettext("A rule of this server hides these words.")
    return texts.gettext("A rule of this server hides these words: moderators have not let them through.")
