"""Marks picture files as they leave: the drawn label, the watermark, XMP, then the signed manifest.

If a mark fails, the picture is sent without it, or held where a signature is required.
"""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol

import PIL.Image

from bot.config.provenance import AigcConfig, Stamp
from bot.domain.errors import PictureUnsigned
from bot.domain.jobs import SHOWING
from bot.provenance.claims import PAINTED_OVER, generator, source_type_of
from bot.provenance.payload import number_of
from bot.provenance.stamps import draw_stamp, repainted
from bot.provenance.start_manifests import MOST_BYTES, manifest_in
from bot.provenance.xmp import FRAME, packet, with_packet
from bot.telemetry.metrics import WELL, Metrics, ProvenanceMetrics
from sdjax_engine.images import inputs_of, start_of, starts_from_picture

log = logging.getLogger(__name__)

REMEMBERED_CAUSES = 100
FRAME_OF_PARENT = 8192  # bytes about the manifest of a given picture
MOST_GIVEN = len(SHOWING)  # pictures whose manifests a manifest may hold

ReadStart = Callable[[str], bytes | None]
"""Returns the file of a given picture by its sha256, in any thread; None where it is gone."""


class PictureSigner(Protocol):
    """Adds a manifest to picture files, in any thread."""

    @property
    def room(self) -> int:
        """The most bytes that a manifest adds to a file."""
        ...

    def sign(
        self,
        data: bytes,
        parent: bytes | None = None,
        number: int | None = None,
        *,
        inputs: Sequence[tuple[str, bytes]] = (),
    ) -> bytes:
        """Return the PNG, WebP or JPEG `data` with a manifest; may raise any error.

        It has those of `parent` and the `inputs`, each a field of `inputs_of` and a file, and names the
        `number` of the picture's watermark.
        """
        ...


class PictureWatermark(Protocol):
    """Puts numbers into pictures, invisibly, and finds them, in any thread; may raise any error."""

    def put(self, picture: PIL.Image.Image, number: int) -> None:
        """Mark an RGB picture with a number."""
        ...

    def find(self, picture: PIL.Image.Image) -> int | None:
        """Return the number in an RGB picture; None without any."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class Signing:
    """Marks files: signs them with `signer`, and more if it is given. Call it in a thread.

    If signatures are `required`, a file that cannot be signed is an error. `stamp` is the label that is
    drawn on pictures. The field `aigc` is written if it names a producer. `starts`
    returns the pictures that others were painted from, whose manifests become ingredients. `watermark` marks
    each picture with a number.
    """

    def __init__(
        self,
        signer: PictureSigner | None = None,
        *,
        required: bool = False,
        stamp: Stamp | Literal[""] = "",
        aigc: AigcConfig | None = None,
        starts: ReadStart | None = None,
        watermark: PictureWatermark | None = None,
        metrics: ProvenanceMetrics | None = None,
    ) -> None:
        self._signer = signer
        self._required = required
        self._starts = starts
        self._watermark = watermark
        self._stamp: Stamp | None = stamp or None
        self._aigc = aigc if aigc and aigc.producer else None
        self._tool = " ".join(generator().values())
        self._held_for = ""
        self._metrics = metrics or Metrics().provenance
        self._causes: set[str] = set()

    @property
    def room(self) -> int:
        """The most bytes that `signed` adds to a file."""
        if not self._writes:
            return 0
        given = (MOST_BYTES + FRAME_OF_PARENT) * MOST_GIVEN if self._starts else 0
        return (
            (self._signer.room if self._signer else 0) + given + len(self._packet(PAINTED_OVER, b"")) + FRAME
        )

    @property
    def _writes(self) -> bool:
        return self._signer is not None or self._aigc is not None

    def __bool__(self) -> bool:
        return self._writes or self._stamp is not None or self.watermarks

    @property
    def watermarks(self) -> bool:
        """Whether pictures get a watermark."""
        return self._watermark is not None

    def draw(self, picture: PIL.Image.Image, *, modified: bool = False) -> None:
        """Draw the label on an RGB picture, if there is one: AI has modified or generated the picture."""
        if self._stamp is not None:
            draw_stamp(picture, self._stamp, modified=modified)

    def drawn(self, png: bytes) -> bytes:
        """Return a painted PNG with the label, if there is one, and its recipe."""
        return png if self._stamp is None else repainted(png, self._label(png))

    def _label(self, png: bytes) -> Callable[[PIL.Image.Image], None]:
        return partial(self.draw, modified=starts_from_picture(png))

    def leaving(self, kept: bytes | None) -> Leaving:
        """Return the marks of a file that leaves, whose only or first picture is kept as the PNG `kept`."""
        return Leaving(signing=self, kept=kept)

    def marked(self, png: bytes) -> bytes:
        """Return a painted PNG with all marks; raises as `signed`."""
        leaving = self.leaving(png)
        if self._stamp is not None or self.watermarks:
            png = repainted(png, self._label(png), leaving.put_watermark)
        return leaving.signed(png)

    def put_watermark(self, picture: PIL.Image.Image, kept: bytes) -> int | None:
        """Mark an RGB picture with the number of the PNG `kept`, and return it; None if it has no mark.

        Raises PictureUnsigned instead, if signatures are required and the mark fails.
        """
        if self._watermark is None:
            return None
        number = number_of(kept)
        try:
            self._watermark.put(picture, number)
        except Exception as error:  # noqa: BLE001 - told, and raised where marks are required
            self._failed(error, "watermarked", lacking="a watermark")
            return None
        return number

    def number_in(self, png: bytes) -> int | None:
        """Return the number of the watermark in a PNG; None without any, or if that cannot be known."""
        if self._watermark is None:
            return None
        try:
            with PIL.Image.open(io.BytesIO(png)) as picture:
                return self._watermark.find(picture.convert("RGB"))
        except Exception as error:  # noqa: BLE001 - told
            self._say_once(f"watermarks cannot be found: {type(error).__name__}: {error}")
            return None

    def _packet(self, source_type: str, data: bytes) -> bytes:
        content_id = hashlib.sha256(data).hexdigest()[:32]
        return packet(source_type, self._tool, aigc=self._aigc.fields(content_id) if self._aigc else None)

    def signed(self, data: bytes, number: int | None = None) -> bytes:
        """Return the picture file with XMP and manifest, or as much of both as can be made.

        The manifest names the `number` of its watermark. Raises PictureUnsigned instead, if signatures are
        required.
        """
        if not self._writes:
            return data
        marked = data
        try:
            marked = with_packet(data, self._packet(source_type_of(data), data))
            if self._signer is None:
                return marked
            parent = self._named(start_of(data))
            named = ((field, self._named(digest)) for field, digest in inputs_of(data))
            inputs = [(field, file) for field, file in named if file is not None]
            signed = self._signer.sign(marked, parent, number, inputs=inputs)
        except Exception as error:  # noqa: BLE001 - told, and raised where marks are required
            self._failed(error, "signed", lacking="a manifest")
            return marked
        self._held_for = ""
        self._metrics.pictures.labels("signed").inc()
        return signed

    def _failed(self, error: Exception, done: str, *, lacking: str) -> None:
        """Count and tell that a picture could not be `done`; raises PictureUnsigned if it must be."""
        cause = f"{type(error).__name__}: {error}"
        self._metrics.pictures.labels("held" if self._required else f"un{done}").inc()
        kept = "held" if self._required else f"sent without {lacking}"
        self._say_once(f"pictures are {kept}, as they cannot be {done}: {cause}")
        if self._required:
            self._held_for = cause
            raise PictureUnsigned(f"The picture cannot be {done}: {error}.") from error

    def _named(self, sha256: str | None) -> bytes | None:
        """Return a given picture, if a manifest of it is kept."""
        file = self._starts(sha256) if self._starts and sha256 else None
        return file if file is not None and manifest_in(file) is not None else None

    def close(self) -> None:
        """End the process of the watermark, if there is one."""
        if self._watermark is not None:
            self._watermark.close()

    async def health(self) -> str:
        """Return "well", or that pictures are held and why."""
        return f"pictures are held, as they cannot be signed: {self._held_for}" if self._held_for else WELL

    def _say_once(self, cause: str) -> None:
        if cause not in self._causes and len(self._causes) < REMEMBERED_CAUSES:
            self._causes.add(cause)
            log.error("%s", cause)


@dataclass(kw_only=True)
class Leaving:
    """The marks of one file that leaves: the picture's, before it becomes a file, and then the file's.

    `number` is that of the watermark, once it is in the picture.
    """

    signing: Signing
    kept: bytes | None = field(repr=False)
    number: int | None = None

    def put_watermark(self, picture: PIL.Image.Image) -> None:
        """Put the watermark into an RGB picture, if there is one; raises as `Signing.put_watermark`."""
        if self.kept is not None:
            self.number = self.signing.put_watermark(picture, self.kept)

    def signed(self, data: bytes) -> bytes:
        """Return the file with XMP and manifest; as `Signing.signed`."""
        return self.signing.signed(data, self.number)
