"""What a moderators' message about a review shows, as plain data; no Discord here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bot.delivery.content import ButtonContent, MessageContent, PictureContent, Row, Tone, shortened
from bot.delivery.lineage import message_address
from bot.delivery.result import FAILURES
from bot.domain.holds import Cause, Outcome
from bot.domain.jobs import SHOWING, ImageRecord, Recipe, Showing
from bot.store.moderation.review_messages import Case
from bot.store.rows.audit import OPERATOR
from bot.store.rows.jobs import origin_from, recipe_from
from bot.store.rows.reviews import Kind, Review
from bot.texts.catalogue import Moment, Texts
from bot.texts.markup import shown, tidy

SHOWN_PROMPT, SHOWN_NEGATIVE = 600, 300
SHOWN_REPORT = 100
SHOWN_REASON = 300
MOST_WORDS = 300  # of a person, with an appeal
APPROVE, SPOILER, REJECT = "approve", "spoiler", "reject"
OPTIONS = {"init_image": "image", "control_image": "control"}  # of /imagine, where a field has another name
ACCEPT, DECLINE, BLOCK = "accept", "decline", "block"


def review_content(
    case: Case, texts: Texts, *, pictures: bool = True, private: bool = True
) -> MessageContent:
    """Return the message: pictures and buttons until a decision, then the moderator and the time.

    Without `pictures`, a sentence says that their files are gone. With `private` moderators alone see the
    message: only then it shows what the person gave with the request.
    """
    review = case.review
    lines = [_line(part, texts) for part in (*_about(case, texts), *_state(case, texts, private=private))]
    gone = not pictures and review.outcome is None
    if gone:
        lines.append(texts.gettext(FAILURES["artifact_missing"]))
    waits = review.outcome is None
    given = given_in(case) if pictures else {}
    if given:
        lines.append(_line(_given_line(given, texts, private=private), texts))
    shown_given = _given_pictures(case, given, texts) if private else ()
    return MessageContent(
        heading=f"### {_heading(review, texts)}",
        status="\n".join(lines),
        pictures=(*_pictures(case, texts), *shown_given) if waits and pictures else (),
        rows=_rows(review, texts) if waits else (),
        tone=_tone(review),
    )


def _line(text: str, texts: Texts) -> str:
    return texts.line(text, mark="")


def _heading(review: Review, texts: Texts) -> str:
    if review.kind is Kind.APPEAL:
        return texts.gettext("An appeal")
    if review.kind is Kind.REPORT:
        return texts.gettext("A reported picture")
    if review.outcome is not None:
        return texts.gettext("A held picture")
    return texts.gettext("A picture is waiting for review")


def _tone(review: Review) -> Tone:
    if review.outcome is None:
        return Tone.WAITING
    return Tone.DONE if review.outcome.shows else Tone.CANCELLED


def _about(case: Case, texts: Texts) -> Iterator[str]:
    """Yield the person and the place, the words, and why moderators are asked."""
    review, job = case.review, case.job
    appeals = review.kind is Kind.APPEAL
    yield texts.joined([person(review.user_id, texts), *_place(case, texts)])
    recipe = _recipe(case)
    if recipe is not None:
        yield shown(recipe.prompt, SHOWN_PROMPT)
    if recipe is not None and recipe.negative_prompt.strip():
        yield texts.gettext("without: {negative}", negative=shown(recipe.negative_prompt, SHOWN_NEGATIVE))
    if review.rule and appeals and job is None:
        yield texts.gettext("Refused by the rule {rule}.", rule=shown(review.rule, SHOWN_REASON))
    elif review.rule:
        yield texts.gettext("Held by the rule {rule}.", rule=shown(review.rule, SHOWN_REASON))
    elif review.kind is Kind.HOLD and job is not None:
        yield _cause(job.hold.cause if job.hold else Cause.PICTURE, texts)
    if appeals:
        yield from _about_appeal(case, texts)
    if case.count:
        yield texts.ngettext(
            "{count} member has reported this.", "{count} members have reported this.", case.count
        )
    for reason in () if appeals else case.reported:  # there is no room for all words
        yield f"- {shown(reason, SHOWN_REPORT)}"


def _about_appeal(case: Case, texts: Texts) -> Iterator[str]:
    """Yield who decided before, and why; the person's words; and how often the person has appealed before."""
    if case.first is not None:
        yield _decided(case.first, texts)
        if case.first.reason:
            reason = shown(case.first.reason, SHOWN_REASON)
            yield texts.gettext("The moderator's reason: {reason}", reason=reason)
    if case.review.words:
        yield texts.gettext("The member says: {words}", words=shown(case.review.words, MOST_WORDS))
    if case.appeals:
        yield texts.ngettext(
            "{count} earlier appeal in this server, {accepted} accepted.",
            "{count} earlier appeals in this server, {accepted} accepted.",
            case.appeals,
            accepted=case.accepted,
        )
    else:
        yield texts.gettext("No earlier appeals in this server.")


def _place(case: Case, texts: Texts) -> Iterator[str]:
    if case.job is not None:
        yield f"<#{case.job.origin.channel_id}>"
        if address := message_address(case.job):
            word = texts.gettext("message")
            yield f"[{word}]({address})"
    elif case.review.request is not None:
        yield f"<#{origin_from(case.review.request['origin']).channel_id}>"


def _recipe(case: Case) -> Recipe | None:
    if case.job is not None:
        return case.job.recipe
    return None if case.review.request is None else recipe_from(case.review.request["recipe"])


def _cause(cause: Cause, texts: Texts) -> str:
    if cause is Cause.SESSION:
        return texts.gettext("Results of this session go to moderators first.")
    if cause is Cause.PICTURE:
        return texts.gettext("The picture's level calls for a review.")
    if cause is Cause.REPORTS:
        return texts.gettext("Members have reported it.")
    return texts.gettext("Results of this place go to moderators first.")


def _state(case: Case, texts: Texts, *, private: bool) -> Iterator[str]:
    review = case.review
    if review.outcome is None:
        until = Moment(review.due_at)
        held = case.job is not None and any(image.showing is Showing.HOLD for image in case.job.images)
        if held and private:
            yield texts.gettext(
                "Only moderators see it. Without a decision it is withheld {until}.", until=until
            )
        elif held:
            yield texts.gettext(
                "All members of this channel see the picture. Without a decision the picture is withheld "
                "{until}.",
                until=until,
            )
        else:
            yield texts.gettext("Without a decision nothing changes; the review ends {until}.", until=until)
        return
    yield _decided(review, texts)
    if case.first is not None and review.decided_by and review.decided_by == case.first.decided_by:
        yield texts.gettext("The same moderator had decided before.")
    pictures = () if case.job is None or not review.outcome.shows else case.job.images
    if rejected := sum(image.showing is Showing.WITHHOLD and image.ruling is not None for image in pictures):
        yield texts.ngettext(
            "{count} picture of it is not shown.", "{count} pictures of it are not shown.", rejected
        )
    if review.reason:
        yield shown(review.reason, SHOWN_REASON)


def _decided(review: Review, texts: Texts) -> str:
    when = Moment(review.decided_at or 0.0)
    if review.outcome is Outcome.WITHDRAWN:
        return texts.gettext("The person who asked for it has deleted it.")
    if review.outcome is Outcome.EXPIRED:
        return texts.gettext("Nobody has decided in time.")
    who = person(review.decided_by or 0, texts)
    if review.outcome is Outcome.SHOWN and review.kind is Kind.APPEAL:
        return texts.gettext("{moderator} has accepted the appeal {when}.", moderator=who, when=when)
    if review.outcome is Outcome.SHOWN:
        return texts.gettext("{moderator} has approved it {when}.", moderator=who, when=when)
    if review.outcome is Outcome.SPOILER:
        return texts.gettext("{moderator} has approved it as a spoiler {when}.", moderator=who, when=when)
    if review.outcome is Outcome.DECLINED:
        return texts.gettext("{moderator} has declined it {when}.", moderator=who, when=when)
    return texts.gettext("{moderator} has rejected it {when}.", moderator=who, when=when)


def person(user_id: int, texts: Texts) -> str:
    """Return a mention, or words for the operator and for a person whose data was deleted."""
    if user_id == OPERATOR:
        return texts.gettext("the bot's owner")
    return f"<@{user_id}>" if user_id >= 0 else texts.gettext("person no. {number}", number=-user_id)


def _pictures(case: Case, texts: Texts) -> Iterator[PictureContent]:
    """Yield the pictures in question as one covered file."""
    if case.job is None:
        return
    names = tuple(filter(None, (file_in_question(image, case.review.kind) for image in case.job.images)))
    if names:
        alt = texts.gettext("Pictures to review: {prompt}", prompt=tidy(case.job.recipe.prompt))
        stem = f"SPOILER_review-{case.review.id}"
        yield PictureContent(artifacts=names, stem=stem, alt=shortened(alt), spoiler=True)


def given_in(case: Case) -> dict[str, str]:
    """Return the files of the pictures that were given for what a review is about, until it is decided.

    By the fields of SHOWING; a mask shows nothing.
    """
    if case.job is None or case.review.outcome is not None:
        return {}
    return {field: name for field, name in case.job.recipe.given.items() if field in SHOWING}


def given_name(field: str, texts: Texts) -> str:
    """Return what a given picture is called: as the option of /imagine that takes it."""
    option = OPTIONS.get(field, field)
    return texts.pgettext("field", option)


def _given_line(given: Iterable[str], texts: Texts, *, private: bool) -> str:
    what = texts.joined(shown(given_name(field, texts), SHOWN_REPORT) for field in given)
    if private:
        return texts.gettext("The member gave these pictures, the last ones below: {what}", what=what)
    return texts.gettext(
        "The member gave pictures. {show} shows them to you alone: {what}",
        show=f"**/{texts.pgettext('name', 'review')} {texts.pgettext('name', 'show')}**",
        what=what,
    )


def _given_pictures(case: Case, given: Mapping[str, str], texts: Texts) -> Iterator[PictureContent]:
    for field, name in given.items():
        stem = f"SPOILER_review-{case.review.id}-{field}"
        alt = texts.gettext("A picture that the member gave: {what}", what=given_name(field, texts))
        yield PictureContent(artifacts=(name,), stem=stem, alt=alt, spoiler=True, given=True)


def file_in_question(image: ImageRecord, kind: Kind) -> str | None:
    """Return the file of a picture that a review of this kind is about; None for another picture."""
    if kind is Kind.APPEAL:
        return image.held if image.showing is Showing.WITHHOLD else None
    if kind is Kind.HOLD or image.showing is Showing.HOLD:
        return image.held if image.showing is Showing.HOLD else None
    return image.artifact


def _rows(review: Review, texts: Texts) -> tuple[Row, ...]:
    block = ButtonContent(label=texts.gettext("Block member"), custom_id=_id(BLOCK, review), dangerous=True)
    if review.kind is Kind.APPEAL:
        accept = ButtonContent(label=texts.gettext("Accept"), custom_id=_id(ACCEPT, review), primary=True)
        decline = ButtonContent(label=texts.gettext("Decline"), custom_id=_id(DECLINE, review))
        return ((accept, decline), (block,))
    approve = ButtonContent(label=texts.gettext("Approve"), custom_id=_id(APPROVE, review), primary=True)
    spoiler = ButtonContent(label=texts.gettext("Spoiler"), custom_id=_id(SPOILER, review))
    reject = ButtonContent(label=texts.gettext("Reject"), custom_id=_id(REJECT, review))
    return ((approve, spoiler, reject), (block,))


def _id(act: str, review: Review) -> str:
    return f"review:{act}:{review.id}"


def appeal_answer(review: Review, texts: Texts) -> str:
    """Return what a person is told of a prompt whose appeal was not accepted."""
    prompt = "" if review.request is None else recipe_from(dict(review.request["recipe"])).prompt
    fields = {"prompt": shown(prompt, SHOWN_REASON)}
    if review.outcome is Outcome.EXPIRED:
        return texts.gettext("No moderator has looked at your appeal in time: {prompt}", **fields)
    said = texts.gettext("Moderators have declined your appeal: {prompt}", **fields)
    if review.reason:
        reason = shown(review.reason, SHOWN_REASON)
        said += "\n" + texts.gettext("The moderator's reason: {reason}", reason=reason)
    return said
