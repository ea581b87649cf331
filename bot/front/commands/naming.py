"""A request in the few plain words that a menu or a suggestion has room for: Markdown means nothing there."""

from __future__ import annotations

from bot.front.options import clean
from bot.jobs import Job, State
from bot.texts import SEPARATOR, Texts, tidy

MAX_NAME = 100  # characters of a suggestion, and of a choice's label and description


def request_words(job: Job, texts: Texts, *, secret: bool) -> str:
    """What the request shows, or that this is nobody else's business."""
    if secret:
        return texts.gettext("private")
    return _cut(tidy(clean(job.recipe.prompt)), MAX_NAME)


def request_facts(job: Job, *, now: float, texts: Texts, named: bool) -> str:
    """Whose it is if `named`, how many pictures, how old, and where it stands until it has ended."""
    work = job.work
    facts = [
        texts.ngettext("{count} picture", "{count} pictures", work.count),
        texts.age(now - job.created_at),
    ]
    if job.state is State.WAITING:
        facts.append(texts.gettext("waiting"))
    elif job.state is State.RUNNING:
        facts.append(texts.gettext("painting, step {step} of {steps}", step=work.step, steps=work.steps))
    if named:
        facts.insert(0, _cut(tidy(job.origin.user_name), 30) or str(job.origin.user_id))
    return _cut(texts.line(texts.joined(facts)), MAX_NAME)


def request_name(job: Job, *, now: float, texts: Texts, named: bool) -> str:
    """All of it on one line, the words last; of another's private request none of them."""
    facts = request_facts(job, now=now, texts=texts, named=named)
    words = request_words(job, texts, secret=named and job.origin.private)
    room = MAX_NAME - len(facts) - len(SEPARATOR) - len(texts.isolated(""))
    return facts if room < 1 else f"{facts}{SEPARATOR}{texts.isolated(_cut(words, room))}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
