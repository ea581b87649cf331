"""Reads the text files that an operator writes."""

from __future__ import annotations

import codecs
from pathlib import Path

_OTHERS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BEGINNING = 64  # bytes: half of those of a text in UTF-16 without a mark are null


def read_text_file(file: str | Path) -> str:
    """Return the text of a file in UTF-8, without its byte order mark.

    Line ends stay as they are. Raises OSError, and ValueError with what to do for another encoding.
    """
    data = Path(file).read_bytes()
    nulls = data[:_BEGINNING].count(0)
    if data.startswith(_OTHERS) or (nulls > 1 and 2 * nulls >= len(data[:_BEGINNING]) - 1):
        raise ValueError("it is not a text in UTF-8 but looks like UTF-16: save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not a text in UTF-8 (byte {error.start + 1}): save it as UTF-8") from None
