"""Marks picture files as they leave: the drawn label, XMP, then the signed manifest.

If signing fails, the picture is sent without a manifest, or held where a signature is required.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Literal, Protocol

import PIL.Image

from bot.config.provenance import AigcConfig, Stamp
from bot.domain.errors import PictureUnsigned
from bot.provenance.claims import PAINTED_OVER, generator, source_type_of
from bot.provenance.stamps import draw_stamp, stamped
from bot.provenance.start_manifests import MOST_BYTES, manifest_in
from bot.provenance.xmp import FRAME, packet, with_packet
from bot.telemetry.metrics import WELL, Metrics, ProvenanceMetrics
from sdjax_engine.images import start_of

log = logging.getLogger(__name__)

REMEMBERED_CAUSES = 100
FRAME_OF_PARENT = 8192  # bytes about the manifest of a start picture

ReadStart = Callable[[str], bytes | None]
"""Returns the file of a start picture by its sha256, in any thread; None where it is gone."""


class PictureSigner(Protocol):
    """Adds a manifest to picture files, in any thread."""

    @property
    def room(self) -> int:
        """The most bytes that a manifest adds to a file."""
        ...

    def sign(self, data: bytes, parent: bytes | None = None) -> bytes:
        """Return the PNG, WebP or JPEG `data` with a manifest, and that of `parent`; may raise any error."""
        ...


class Signing:
    """Signs files with `signer`; without one, files stay as they are. Call it in a thread.

    If signatures are `required`, a file that cannot be signed is an error. `stamp` is the label that is
    drawn on pictures. The field `aigc` is written if it names a producer. `starts`
    returns the pictures that others were painted from, whose manifests become ingredients.
    """

    def __init__(
        self,
        signer: PictureSigner | None = None,
        *,
        required: bool = False,
        stamp: Stamp | Literal[""] = "",
        aigc: AigcConfig | None = None,
        starts: ReadStart | None = None,
        metrics: ProvenanceMetrics | None = None,
    ) -> None:
        self._signer = signer
        self._required = required
        self._starts = starts
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
        parent = MOST_BYTES + FRAME_OF_PARENT if self._starts else 0
        return (
            (self._signer.room if self._signer else 0) + parent + len(self._packet(PAINTED_OVER, b"")) + FRAME
        )

    @property
    def _writes(self) -> bool:
        return self._signer is not None or self._aigc is not None

    def __bool__(self) -> bool:
        return self._writes or self._stamp is not None

    def draw(self, picture: PIL.Image.Image, *, modified: bool = False) -> None:
        """Draw the label on an RGB picture, if there is one: AI has modified or generated the picture."""
        if self._stamp is not None:
            draw_stamp(picture, self._stamp, modified=modified)

    def drawn(self, png: bytes) -> bytes:
        """Return a painted PNG with the label, if there is one, and its recipe."""
        return png if self._stamp is None else stamped(png, self._stamp)

    def marked(self, png: bytes) -> bytes:
        """Return a painted PNG with the label and as `signed`, which raises."""
        return self.signed(self.drawn(png))

    def _packet(self, source_type: str, data: bytes) -> bytes:
        content_id = hashlib.sha256(data).hexdigest()[:32]
        return packet(source_type, self._tool, aigc=self._aigc.fields(content_id) if self._aigc else None)

    def signed(self, data: bytes) -> bytes:
        """Return the picture file with XMP and manifest, or as much of both as can be made.

        Raises PictureUnsigned instead, if signatures are required.
        """
        if not self._writes:
            return data
        marked = data
        try:
            marked = with_packet(data, self._packet(source_type_of(data), data))
            if self._signer is None:
                return marked
            parent = self._parent(data)
            signed = self._signer.sign(marked) if parent is None else self._signer.sign(marked, parent)
        except Exception as error:
            self._metrics.pictures.labels("held" if self._required else "unsigned").inc()
            self._say_once(error)
            if self._required:
                self._held_for = f"{type(error).__name__}: {error}"
                raise PictureUnsigned(f"The picture cannot be signed: {error}.") from error
            return marked
        self._held_for = ""
        self._metrics.pictures.labels("signed").inc()
        return signed

    def _parent(self, data: bytes) -> bytes | None:
        """Return the picture that this one was painted from, if a manifest of it is kept."""
        start = start_of(data) if self._starts else None
        file = self._starts(start) if self._starts and start else None
        return file if file is not None and manifest_in(file) is not None else None

    async def health(self) -> str:
        """Return "well", or that pictures are held and why."""
        return f"pictures are held, as they cannot be signed: {self._held_for}" if self._held_for else WELL

    def _say_once(self, error: Exception) -> None:
        cause = f"{type(error).__name__}: {error}"
        if cause not in self._causes and len(self._causes) < REMEMBERED_CAUSES:
            self._causes.add(cause)
            kept = "held" if self._required else "sent without a manifest"
            log.error("pictures are %s, as they cannot be signed: %s", kept, cause)
