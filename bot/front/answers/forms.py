"""Forms, Discord's modals, that survive restarts: a submission is found by its `custom_id` alone.

discord.py keeps open modals in memory, which a restart loses. So the client passes every submission to
`submitted`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

from discord import ComponentType

from bot.front.answers.answers import give_back, report
from bot.front.answers.controls import answer_press
from bot.front.services.services import Interaction
from bot.front.uploads.message_pictures import file_name
from bot.front.uploads.sent_file import SentFile
from bot.telemetry.tracing import about


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form by the template of its `custom_id`.

    `act` is called with the interaction, the named groups, and what was filled in, by the inputs' ids: texts,
    and a SentFile for an upload. With `again` a refused form can be opened again, filled in: it must not
    depend on the message of its button.
    """

    template: str
    act: Callable[..., Awaitable[None]]
    again: bool = True


async def submitted(interaction: Interaction, forms: Sequence[Form]) -> None:
    """Act on a submission; one of no known form is ignored."""
    data = cast("Mapping[str, Any]", interaction.data or {})
    for form in forms:
        if (match := re.fullmatch(form.template, str(data.get("custom_id", "")))) is None:
            continue
        ids, job_id = match.groupdict(), match.groupdict().get("job_id")
        with about(job_id) if job_id else nullcontext():
            sent = (data.get("resolved") or {}).get("attachments") or {}
            filled = dict(_filled(data.get("components") or [], sent))
            act = functools.partial(form.act, interaction, **filled)
            back = functools.partial(give_back, custom_id=match[0], typed=filled)
            await answer_press(interaction, act, ids, tell=back if form.again else report)
        return


def _filled(
    parts: Sequence[Mapping[str, Any]], sent: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str | SentFile]]:
    """Yield the id of each input, and its text, what is chosen or the file; nothing where nothing is.

    `sent` has the files of the form by their ids.
    """
    for part in parts:
        field = part.get("component", part)
        if "custom_id" in field and field.get("value") is not None:
            yield str(field["custom_id"]), str(field["value"])
        elif "custom_id" in field and field.get("values"):
            first = str(field["values"][0])
            is_file = field.get("type") == ComponentType.file_upload.value
            yield str(field["custom_id"]), _sent_file(first, sent.get(first) or {}) if is_file else first


def _sent_file(key: str, file: Mapping[str, Any]) -> SentFile:
    """Return a file of a form, which sentences call by its name, or by its id where Discord sent no more.

    A file without an address is refused when it is fetched, in a sentence as any other.
    """
    name, size = file_name(str(file.get("filename", key))), file.get("size")
    return SentFile(
        address=str(file.get("url", "")), what=f"“{name}”", size=size if isinstance(size, int) else None
    )
