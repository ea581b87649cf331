"""Generation data of any known format, from a text or from a picture's file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bot.generation_data.a1111 import read_a1111
from bot.generation_data.comfyui import is_prompt, is_workflow, read_prompt, read_workflow
from bot.generation_data.data import MAX_BYTES, GenerationData, NoGenerationData
from bot.generation_data.invokeai import is_invokeai, is_version_2, read_invokeai, read_version_2
from bot.generation_data.metadata import texts_of
from bot.generation_data.own import is_own, read_own

_FENCE = re.compile(r"```(?:[a-z0-9]{1,10}\n)?")


def read_text(text: str) -> GenerationData:
    """Return the generation data in a text; raises NoGenerationData where there is none."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise NoGenerationData("generation_data_long", limit=MAX_BYTES // 1024)
    text = _FENCE.sub("", text).strip()
    data = _read_json(text) if text.startswith("{") else read_a1111(text)
    if not data.prompt and data.steps is None and data.seed is None:
        raise NoGenerationData
    return data


def read_picture(file: bytes) -> GenerationData:
    """Return the generation data in a PNG, WebP or JPEG file; raises NoGenerationData where there is none.

    The first text that can be read counts; where none can, the error is the first text's.
    """
    errors = []
    for text in texts_of(file).values():
        try:
            return read_text(text)
        except NoGenerationData as error:
            errors.append(error)
    raise errors[0] if errors else NoGenerationData("generation_data_no_file")


def _read_json(text: str) -> GenerationData:
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        raise NoGenerationData("generation_data_damaged") from None
    for each in _objects(found):
        if is_own(each):
            return read_own(each)
        if is_invokeai(each):
            return read_invokeai(each)
        if is_version_2(each):
            return read_version_2(each)
        if is_workflow(each):
            return read_workflow(each)
        if is_prompt(each):
            return read_prompt(each)
    raise NoGenerationData


def _objects(found: Any) -> Iterator[dict[str, Any]]:
    """Yield the object, and the object within an envelope: `{"prompt": {…}}` is sent to ComfyUI's server."""
    if isinstance(found, dict):
        yield found
        for key in ("prompt", "metadata", "workflow"):
            inner = found.get(key)
            if isinstance(inner, dict):
                yield inner
