"""The marks of AI in a picture file: which there are, and what they say together.

The file may be anybody's: call `marks_of` in a process with little time and memory, or with a file of one's
own. Nothing is fetched, no pixel is decoded, and XMP is not parsed as XML.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

import PIL.Image

from bot.provenance.xmp import KEYWORD, aigc_in, source_type_in
from sdjax_engine.images import PARAMETERS_CHUNK, RECIPE_CHUNK, UNREADABLE

AI = frozenset(
    {
        "trainedAlgorithmicMedia",
        "compositeWithTrainedAlgorithmicMedia",
        "compositeSynthetic",
        "trainedAlgorithmicData",
    }
)
"""The digital source types in which a model took part, of IPTC and of C2PA."""
NO_AI = frozenset(
    {
        "digitalCapture",
        "computationalCapture",
        "negativeFilm",
        "positiveFilm",
        "print",
        "humanEdits",
        "minorHumanEdits",
        "digitalArt",
        "digitalCreation",
        "screenCapture",
        "compositeCapture",
    }
)
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
SETTINGS_OF_TOOLS = (PARAMETERS_CHUNK, RECIPE_CHUNK, "workflow", "invokeai_metadata", "Dream")
LONGEST_MANIFEST = 32 << 20  # characters of JSON
_SOURCE = re.compile(r'"digitalSourceType"\s*:\s*"([^"]{1,200})"')
_LABELLED = re.compile(r'"Label"\s*:\s*"?1"?')


class Kind(StrEnum):
    """Where a mark is."""

    MANIFEST = "manifest"
    BROKEN_MANIFEST = "broken_manifest"  # the file was changed after its signature, or that is wrong
    XMP = "xmp"
    AIGC = "aigc"
    SETTINGS = "settings"
    OWN = "own"  # the file as the bot painted it, by its sha256
    WATERMARK = "watermark"  # of a picture that the bot knows
    KNOWN = "known"  # the picture, by its perceptual hash


class Answer(StrEnum):
    """Whether a model took part in a picture."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A mark, and what it says."""

    kind: Kind
    says: Answer


def marks_of(data: bytes) -> list[Mark]:
    """Return the marks that the readers find in a file; a file that cannot be read has none."""
    return [mark for read in READERS for mark in read(data)]


def digest_of(data: bytes) -> str:
    """Return the sha256 of a file without its marks, in hexadecimal: that of a painted file's kept form."""
    if b"caBX" in data or KEYWORD in data:
        from bot.provenance.manifests import unmarked  # noqa: PLC0415 - its library is slow to load

        data = unmarked(data)
    return hashlib.sha256(data).hexdigest()


def answer_of(marks: Collection[Mark]) -> Answer:
    """Return what all marks say together: yes, if one does. Only a valid manifest can say no."""
    if any(mark.says is Answer.YES for mark in marks):
        return Answer.YES
    no = any(mark.says is Answer.NO and mark.kind is Kind.MANIFEST for mark in marks)
    return Answer.NO if no else Answer.UNKNOWN


def manifest_marks(data: bytes) -> Iterator[Mark]:
    """Yield what the manifest of a file says, as `marks_of`."""
    if (
        b"jumd" not in data
    ):  # the boxes of any manifest; most files have none, and the library is slow to load
        return
    import c2pa  # noqa: PLC0415

    from bot.provenance.manifests import SETTINGS, mime_type  # noqa: PLC0415

    try:
        with (
            c2pa.Context.from_dict(SETTINGS) as context,
            c2pa.Reader(mime_type(data), io.BytesIO(data), context=context) as reader,
        ):
            text = reader.json()
            valid = reader.get_validation_state() in ("Valid", "Trusted")
    except (c2pa.C2paError, ValueError, RecursionError):
        return
    if len(text) <= LONGEST_MANIFEST:
        said = _said({source.rpartition("/")[2] for source in _SOURCE.findall(text)})
        yield Mark(kind=Kind.MANIFEST if valid else Kind.BROKEN_MANIFEST, says=said)


def _texts(data: bytes) -> Iterator[Mark]:
    try:
        with PIL.Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            info = dict(picture.info)
    except (*UNREADABLE, PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning):
        return
    xmp = info.get("XML:com.adobe.xmp") or info.get("xmp") or ""
    text = xmp.decode("utf-8", "replace") if isinstance(xmp, bytes) else str(xmp)
    if (source := source_type_in(text)) is not None:
        yield Mark(kind=Kind.XMP, says=_said({source}))
    if (field := aigc_in(text) or info.get("AIGC")) is not None:
        yield Mark(kind=Kind.AIGC, says=Answer.YES if _LABELLED.search(str(field)) else Answer.UNKNOWN)
    if any(name in info for name in SETTINGS_OF_TOOLS):
        yield Mark(kind=Kind.SETTINGS, says=Answer.YES)


def _said(sources: Collection[str]) -> Answer:
    if AI & set(sources):
        return Answer.YES
    return Answer.NO if NO_AI & set(sources) else Answer.UNKNOWN


READERS: tuple[Callable[[bytes], Iterator[Mark]], ...] = (manifest_marks, _texts)
"""Each reads the marks of some kinds; a further kind of mark is a further reader."""
