"""A request in a few plain words, for menus and suggestions, which show no Markdown."""

from __future__ import annotations

from bot.domain.jobs import Job, State
from bot.front.recipes.options import clean
from bot.texts.catalogue import SEPARATOR, Texts
from bot.texts.markup import tidy

MAX_NAME = 100  # characters of a suggestion, and of a choice's label and description


def request_words(job: Job, texts: Texts, *, secret: bool) -> str:
    """Return the words of the request, or “private” if `secret`."""
    if secret:
        return texts.gettext("private")
    return _cut(tidy(clean(job.recipe.prompt)), MAX_NAME)


def request_facts(job: Job, *, now: float, texts: Texts, named: bool) -> str:
    """Return the owner if `named`, the number of pictures, the age, and the state of an active request."""
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
    """Return all facts on one line, the words last; another person's private words are left out."""
    facts = request_facts(job, now=now, texts=texts, named=named)
    words = request_words(job, texts, secret=named and job.origin.private)
    room = MAX_NAME - len(facts) - len(SEPARATOR) - len(texts.isolated(""))
    return facts if room < 1 else f"{facts}{SEPARATOR}{texts.isolated(_cut(words, room))}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
