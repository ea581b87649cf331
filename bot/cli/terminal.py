"""What commands print: lines that cannot harm a terminal, whatever they quote."""

from __future__ import annotations

import traceback

import click

from bot.telemetry.log import escaped, harmless

MOST = 600  # characters of a line: a name from a file of weights may have millions
TAIL = 200  # of them from the end, which says what to do


def say(text: str, *, err: bool = False) -> None:
    """Print lines for people: without secrets and control characters, long ones without their middle."""
    click.echo("\n".join(_shortened(harmless(line)) for line in text.split("\n")), err=err)


def complain(sentence: str) -> None:
    """Print a sentence of this program on stderr."""
    say(f"sdjax-bot: {sentence}", err=True)


def hand_over(text: str) -> None:
    """Print what other programs read, whole: JSON, or the name of a file."""
    click.echo("\n".join(map(escaped, text.split("\n"))))


def one_line(text: str) -> str:
    """Return a text that may quote a file on one line, so that no part of it looks like another line."""
    return " ".join(text.splitlines())


def tell_bug(error: Exception) -> None:
    """Print the traceback of an error that nothing expects."""
    say("".join(traceback.format_exception(error)).rstrip("\n"), err=True)


def _shortened(line: str) -> str:
    return line if len(line) <= MOST else f"{line[: MOST - TAIL]} … {line[-TAIL:]}"
