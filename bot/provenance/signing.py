"""Marks picture files as they leave: XMP, then the signed manifest.

If signing fails, the picture is sent without a manifest, or held where a signature is required.
"""

from __future__ import annotations

import logging
from typing import Protocol

from bot.errors import PictureUnsigned
from bot.metrics import WELL, Metrics, ProvenanceMetrics
from bot.provenance.claims import PAINTED_OVER, generator, source_type_of
from bot.provenance.xmp import FRAME, packet, with_packet

log = logging.getLogger(__name__)

REMEMBERED_CAUSES = 100


class PictureSigner(Protocol):
    """Adds a manifest to picture files, in any thread."""

    @property
    def room(self) -> int:
        """The most bytes that a manifest adds to a file."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Return the PNG, WebP or JPEG `data` with a manifest; may raise any error."""
        ...


class Signing:
    """Signs files with `signer`; without one, files stay as they are. Call it in a thread.

    If signatures are `required`, a file that cannot be signed is an error.
    """

    def __init__(
        self,
        signer: PictureSigner | None = None,
        *,
        required: bool = False,
        metrics: ProvenanceMetrics | None = None,
    ) -> None:
        self._signer = signer
        self._required = required
        self._tool = " ".join(generator().values())
        self._held_for = ""
        self._metrics = metrics or Metrics().provenance
        self._causes: set[str] = set()

    @property
    def room(self) -> int:
        """The most bytes that `signed` adds to a file."""
        return self._signer.room + len(packet(PAINTED_OVER, self._tool)) + FRAME if self._signer else 0

    def __bool__(self) -> bool:
        return self._signer is not None

    def signed(self, data: bytes) -> bytes:
        """Return the picture file with all marks, or as many as can be made.

        Raises PictureUnsigned instead, if signatures are required.
        """
        if self._signer is None:
            return data
        marked = data
        try:
            marked = with_packet(data, packet(source_type_of(data), self._tool))
            signed = self._signer.sign(marked)
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

    async def health(self) -> str:
        """Return "well", or that pictures are held and why."""
        return f"pictures are held, as they cannot be signed: {self._held_for}" if self._held_for else WELL

    def _say_once(self, error: Exception) -> None:
        cause = f"{type(error).__name__}: {error}"
        if cause not in self._causes and len(self._causes) < REMEMBERED_CAUSES:
            self._causes.add(cause)
            kept = "held" if self._required else "sent without a manifest"
            log.error("pictures are %s, as they cannot be signed: %s", kept, cause)
