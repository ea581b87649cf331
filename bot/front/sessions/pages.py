"""Sheets, ballots and results as messages. Data only, no Discord."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bot.delivery.content import ButtonContent, MessageContent, PictureContent, Tone, shortened
from bot.front.sessions.board import came_late, left_out, mine_button, times_left, title
from bot.sessions.results import Rank, champions, page_of, places
from bot.store.rows.sessions import GroupSession, Post, PostKind, TimerKind
from bot.store.sessions.boards import Entry
from bot.texts.catalogue import Moment, Texts
from bot.texts.markup import shown

MAX_NAME = 32  # characters, as Discord's names
MAX_PROMPT = 50
BUTTONS_A_ROW = 5
MOST_WINNERS = 9
ROOM = 3900  # characters: Discord takes 4,000 in all texts of a message


def sheet(
    session: GroupSession,
    post: Post,
    entries: Sequence[Entry],
    *,
    unseen: int,
    late: int = 0,
    texts: Texts,
) -> MessageContent:
    """Return a page of a round's pictures, or of the session's, with buttons to vote in a ballot.

    A ballot names nobody, so that people vote for pictures. A picture that is no longer shown has a number,
    and no name, words or button. `unseen` pictures are withheld or held for review. `late` pictures came
    after the end of the round.
    """
    whole = not post.round
    page = page_of(entries, post.page, whole=whole)
    here = [(number, entry) for number, entry in page if entry]
    seen = [(number, entry) for number, entry in here if entry.artifact is not None]
    lines = [line(entry, number, texts, whole=whole, named=not post.ballot) for number, entry in here]
    if not (here or unseen or late):
        lines = [texts.gettext("Nobody has painted in this round.")]
    if post.page == 1 and unseen:
        lines.append(left_out(unseen, texts))
    if post.page == 1 and late:
        lines.append(came_late(late, texts))
    above = [f"### {_heading(session, post, texts)}"]
    if post.ballot:
        above.append(_ask(session, texts))
    if post.ballot and len(seen) < len(page):
        above.append(
            texts.gettext("A picture is no longer shown: if you have voted for it, vote for another.")
        )
    picture = PictureContent(
        artifacts=(),
        stem=f"session-{session.id}-{post.round}-{post.page}",
        alt=_alt((f"{number}: {entry.recipe.prompt}" for number, entry in seen), texts),
        spoiler=any(entry.spoiler for _, entry in seen),
    )
    return MessageContent(
        heading="\n".join(above),
        footer=_fitting(lines, ROOM - sum(map(len, above)), texts),
        pictures=(picture,) if seen else (),
        rows=(
            *(_votes(session, [entry for _, entry in seen]) if post.ballot else ()),
            (mine_button(session, mark_of(post), texts),),
        ),
        tone=Tone.DONE,
    )


def _fitting(lines: Sequence[str], room: int, texts: Texts) -> str:
    """Return the lines that fit, and the number of lines left out."""
    for count in range(len(lines), -1, -1):
        left = len(lines) - count
        more = [texts.ngettext("and {count} more", "and {count} more", left)] if left else []
        text = "\n".join([*lines[:count], *more])
        if len(text) <= room:
            return text
    return ""


def mark_of(post: Post) -> str:
    """Return the mark that distinguishes the post from other messages of its session."""
    return f"{post.kind.value[0]}{post.round}.{post.page}"


def announcement(
    session: GroupSession, post: Post, texts: Texts, *, entries: Sequence[Entry] = ()
) -> MessageContent:
    """Return the content of a short post: a round begins, the clock stops or goes on, the session ends.

    The end of a session of several rounds names the people with the most votes for `entries`.
    """
    said = {
        PostKind.BEGINNING: texts.gettext("Round {number} begins.", number=post.round),
        PostKind.PAUSE: texts.gettext("The session is paused: its clock has stopped."),
        PostKind.RESUMPTION: texts.gettext("The session has resumed."),
        PostKind.EXTENSION: texts.gettext("There is more time."),
        PostKind.END: texts.gettext("The session has ended."),
    }
    present = session.round == post.round and not session.paused
    ends = list(times_left(session, texts)) if present and post.kind is not PostKind.PAUSE else []
    if post.kind is PostKind.END and session.round > 1 and (best := champions(entries)):
        votes = texts.ngettext("{count} vote", "{count} votes", best.votes)
        named = [f"<@{user_id}>" if user_id > 0 else shown(name, MAX_NAME) for user_id, name in best.people]
        winners_named = texts.joined([*named[:MOST_WINNERS], votes])
        ends.append(texts.gettext("Most votes in all rounds: {winners}", winners=winners_named))
    return MessageContent(
        heading=f"**{said[post.kind]}**", status="\n".join(map(texts.line, ends)), tone=Tone.RUNNING
    )


def _heading(session: GroupSession, post: Post, texts: Texts) -> str:
    if not post.round:
        return title(session, texts)
    return texts.gettext("Pictures of round {number}", number=post.round)


def _ask(session: GroupSession, texts: Texts) -> str:
    asked = texts.gettext(
        "Vote for the picture that you like best, not your own; you can change your vote until the end."
    )
    timer = session.timers.get(TimerKind.VOTE)
    if timer is None:
        return asked
    if timer.due_at is not None:
        return f"{asked} {texts.gettext('The vote ends {until}.', until=Moment(timer.due_at))}"
    paused = texts.gettext("The session is paused: its clock has stopped.")
    left = texts.gettext("Time left: {duration}", duration=texts.duration(timer.left or 0.0))
    return "\n".join([asked, texts.line(paused), texts.line(left)])


def _votes(session: GroupSession, entries: Sequence[Entry]) -> Iterator[tuple[ButtonContent, ...]]:
    buttons = [
        ButtonContent(label=str(entry.number), custom_id=f"vote:{session.id}:{entry.round}:{entry.number}")
        for entry in entries
    ]
    for start in range(0, len(buttons), BUTTONS_A_ROW):
        yield tuple(buttons[start : start + BUTTONS_A_ROW])


def line(entry: Entry, number: int, texts: Texts, *, whole: bool = False, named: bool = True) -> str:
    """Return a picture's number, prompt and seed; if `named`, its painter; with `whole`, its round too.

    A picture that is no longer shown has only its number here, and its round.
    """
    round_ = [texts.gettext("Round {number}", number=entry.round)] if whole else []
    if entry.artifact is None:
        return texts.line(texts.joined([f"**{number}**", *round_, texts.gettext("no longer shown")]))
    parts = [f"**{number}**", *([shown(entry.user_name, MAX_NAME)] if named else []), *round_]
    parts.append(shown(entry.recipe.prompt, MAX_PROMPT))
    parts.append(texts.gettext("seed {seed}", seed=entry.seed))
    if entry.votes and whole:  # votes of a round are shown with its results
        parts.append(texts.ngettext("{count} vote", "{count} votes", entry.votes))
    return texts.line(texts.joined(filter(None, parts)))


def _alt(prompts: Iterable[str], texts: Texts) -> str:
    """Return the alternative text of a sheet: that AI made its pictures, and their prompts."""
    return shortened(texts.joined([texts.gettext("AI-generated"), " / ".join(prompts)]))


def results(
    session: GroupSession, post: Post, entries: Sequence[Entry], *, voters: int, texts: Texts
) -> MessageContent:
    """Return the places of a vote; pictures that share a place are named together."""
    found = places(entries)
    lines = [_place(place, texts) for place in found] or [texts.gettext("Nobody has voted in this round.")]
    if found:
        lines.append(texts.ngettext("{count} person has voted.", "{count} people have voted.", voters))
    best = winners(entries)
    picture = PictureContent(
        artifacts=(),
        stem=f"session-{session.id}-{post.round}-best",
        alt=_alt((entry.recipe.prompt for entry in best), texts),
        spoiler=any(entry.spoiler for entry in best),
    )
    heading = texts.gettext("Results of round {number}", number=post.round)
    return MessageContent(
        heading="\n".join([f"### {heading}", *lines]),
        pictures=(picture,) if best else (),
        rows=((mine_button(session, mark_of(post), texts),),),
        tone=Tone.DONE,
    )


def _name(entry: Entry, place: Rank) -> str:
    """Return the painter's name, for the first place as a mention."""
    return (
        f"<@{entry.user_id}>" if place.number == 1 and entry.user_id > 0 else shown(entry.user_name, MAX_NAME)
    )


def winners(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the pictures of the first place, as many as one message shows."""
    found = places(entries)
    return found[0].entries[:MOST_WINNERS] if found else ()


def _place(place: Rank, texts: Texts) -> str:
    named = [
        texts.gettext("no. {number} of {name}", number=entry.number, name=_name(entry, place))
        for entry in place.entries[:MOST_WINNERS]
    ]
    if (left := len(place.entries) - MOST_WINNERS) > 0:
        named.append(texts.ngettext("and {count} more", "and {count} more", left))
    votes = texts.ngettext("{count} vote", "{count} votes", place.votes)
    number = f"**{texts.ordinal(place.number)}**"
    parts = [number, texts.gettext("a tie"), *named, votes] if place.tied else [number, *named, votes]
    return texts.line(texts.joined(parts), mark="- ")
