"""Signs picture files; if signing fails, the picture stays as it is, without a signature."""

from __future__ import annotations

import logging
from typing import Protocol

from bot.metrics import Metrics, ProvenanceMetrics

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
    """Signs files with `signer`; without one, files stay as they are. Call it in a thread."""

    def __init__(
        self, signer: PictureSigner | None = None, *, metrics: ProvenanceMetrics | None = None
    ) -> None:
        self._signer = signer
        self._metrics = metrics or Metrics().provenance
        self._causes: set[str] = set()

    @property
    def room(self) -> int:
        """The most bytes that `signed` adds to a file."""
        return self._signer.room if self._signer else 0

    def __bool__(self) -> bool:
        return self._signer is not None

    def signed(self, data: bytes) -> bytes:
        """Return the picture file with a manifest, or `data` itself where it cannot be signed."""
        if self._signer is None:
            return data
        try:
            signed = self._signer.sign(data)
        except Exception as error:  # noqa: BLE001 - whatever the library raises, the picture is kept
            self._metrics.pictures.labels("unsigned").inc()
            self._say_once(error)
            return data
        self._metrics.pictures.labels("signed").inc()
        return signed

    def _say_once(self, error: Exception) -> None:
        cause = f"{type(error).__name__}: {error}"
        if cause not in self._causes and len(self._causes) < REMEMBERED_CAUSES:
            self._causes.add(cause)
            log.error("pictures are sent without a manifest, as they cannot be signed: %s", cause)
