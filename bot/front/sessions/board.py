"""The board of a session: round, time left, painters, waiting pictures. Data only, no Discord."""

from __future__ import annotations

from collections.abc import Iterator

from bot.delivery.content import ButtonContent, MessageContent, Tone
from bot.sessions.planning import MAX_THEME
from bot.store.rows.sessions import GroupSession, Phase, TimerKind
from bot.store.sessions.boards import Crowd
from bot.texts.catalogue import Moment, Texts
from bot.texts.markup import shown

MOST_PAINTERS = 25
MAX_STYLE = 60


def board(session: GroupSession, crowd: Crowd, *, voters: int, texts: Texts) -> MessageContent:
    """Return the content of the board; `voters` have voted in the present round."""
    lines = [*_plan(session, texts), *_state(session, voters, texts), *_crowd(session, crowd, texts)]
    return MessageContent(
        heading=f"### {title(session, texts)}",
        status="\n".join(texts.line(line) for line in lines),
        rows=((mine_button(session, f"b{session.boards}", texts),),),
        tone=_tone(session),
    )


def title(session: GroupSession, texts: Texts) -> str:
    """Return the heading of a session."""
    theme = session.plan.theme
    if theme:
        return texts.gettext("Group session: {theme}", theme=shown(theme, MAX_THEME))
    return texts.gettext("Group session")


def mine_button(session: GroupSession, mark: str, texts: Texts) -> ButtonContent:
    """Return the button by which a person sees what is left; `mark` tells the messages of a session apart."""
    return ButtonContent(label=texts.gettext("My pictures"), custom_id=f"group:{session.id}:{mark}")


def _tone(session: GroupSession) -> Tone:
    if session.phase is Phase.CLOSED:
        return Tone.DONE
    return Tone.RUNNING if session.phase is Phase.PAINTING and not session.paused else Tone.WAITING


def _plan(session: GroupSession, texts: Texts) -> Iterator[str]:
    plan = session.plan
    if session.host_id:
        yield texts.gettext("Host: {host}", host=f"<@{session.host_id}>")
    else:
        yield texts.gettext("There is no host: any moderator may lead.")
    if plan.style:
        yield texts.gettext("Style: {style}", style=shown(plan.style, MAX_STYLE))
    if plan.required:
        yield texts.gettext(
            "Every prompt must have these words: {words}", words=shown(", ".join(plan.required), 500)
        )
    if plan.role_id is not None:
        yield texts.gettext("Members with {role} take part.", role=f"<@&{plan.role_id}>")
    if plan.review:
        yield texts.gettext("Moderators look at each picture before it is shown.")
    if session.phase is not Phase.CLOSED:
        yield texts.ngettext(
            "Each person may paint {count} picture in a round.",
            "Each person may paint {count} pictures in a round.",
            plan.quota,
        )


def _state(session: GroupSession, voters: int, texts: Texts) -> Iterator[str]:
    yield f"**{round_of(session, texts)}**"
    if session.phase in (Phase.CLOSING, Phase.CLOSED):
        return
    if session.paused:
        yield texts.gettext("The session is paused: its clock has stopped.")
    yield from times_left(session, texts)
    if session.phase is Phase.VOTING:
        yield texts.ngettext("{count} person has voted.", "{count} people have voted.", voters)
    ending = session.timers.get(TimerKind.SESSION)
    if ending is not None and ending.due_at is not None:
        yield texts.gettext("The session ends {until} at the latest.", until=Moment(ending.due_at))


def times_left(session: GroupSession, texts: Texts) -> Iterator[str]:
    """Yield when the round or the vote ends, as far as it has a time."""
    for kind in (TimerKind.ROUND, TimerKind.VOTE):
        timer = session.timers.get(kind)
        if timer is not None and timer.due_at is not None:
            yield _ends(kind, timer.due_at, texts)
        elif timer is not None and timer.left is not None:
            yield texts.gettext("Time left: {duration}", duration=texts.duration(timer.left))


def _ends(kind: TimerKind, at: float, texts: Texts) -> str:
    if kind is TimerKind.VOTE:
        return texts.gettext("The vote ends {until}.", until=Moment(at))
    return texts.gettext("The round ends {until}.", until=Moment(at))


def round_of(session: GroupSession, texts: Texts) -> str:
    """Return the round and the phase of a session in a few words."""
    phases = {
        Phase.PAINTING: texts.gettext("everyone is painting"),
        Phase.COLLECTING: texts.gettext("the round has ended, and its last pictures are being finished"),
        Phase.VOTING: texts.gettext("everyone is voting"),
        Phase.RESTING: texts.gettext("the round is over, and the host begins the next one"),
        Phase.CLOSING: texts.gettext("the session ends when its last picture is finished"),
        Phase.CLOSED: texts.gettext("the session has ended"),
    }
    return texts.joined([texts.gettext("Round {number}", number=session.round), phases[session.phase]])


def _crowd(session: GroupSession, crowd: Crowd, texts: Texts) -> Iterator[str]:
    if crowd.painters:
        some = [f"<@{user_id}> {count}/{session.plan.quota}" for user_id, count in crowd.painters]
        left = len(some) - MOST_PAINTERS
        more = [texts.ngettext("and {count} more", "and {count} more", left)] if left > 0 else []
        yield texts.joined([*some[:MOST_PAINTERS], *more])
    if crowd.running:
        yield texts.ngettext(
            "{count} picture is being painted.", "{count} pictures are being painted.", crowd.running
        )
    if crowd.waiting:
        yield texts.ngettext("{count} picture waits.", "{count} pictures wait.", crowd.waiting)
    if crowd.unseen:
        yield left_out(crowd.unseen, texts)
    if crowd.late:
        yield came_late(crowd.late, texts)


def left_out(count: int, texts: Texts) -> str:
    """Return how many pictures are not shown."""
    return texts.ngettext(
        "{count} picture is withheld or waits for moderators, and is left out.",
        "{count} pictures are withheld or wait for moderators, and are left out.",
        count,
    )


def came_late(count: int, texts: Texts) -> str:
    """Return how many pictures came after the end of their round, and where they will be."""
    return texts.ngettext(
        "{count} picture came after the end of the round: "
        "nobody can vote for it, and a later archive has it.",
        "{count} pictures came after the end of the round: "
        "nobody can vote for them, and a later archive has them.",
        count,
    )
