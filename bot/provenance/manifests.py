"""Writes C2PA manifests into picture files, with c2pa-python.

Nothing here asks the network: no time-stamp authority is named, and certificate status and remote manifests
are not fetched. Thumbnails are off.
"""

from __future__ import annotations

import contextlib
import io
import json
import struct
import threading
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import c2pa
import PIL.Image

from bot.provenance.certificates import Credentials
from sdjax_engine.images import is_painted_over

SOURCE_TYPES = "http://cv.iptc.org/newscodes/digitalsourcetype/"
PAINTED = SOURCE_TYPES + "trainedAlgorithmicMedia"
PAINTED_OVER = SOURCE_TYPES + "compositeWithTrainedAlgorithmicMedia"
NAME = "sdjax-bot"
UNTRUSTED = "signingCredential.untrusted"
PNG, MANIFEST_CHUNK = b"\x89PNG\r\n\x1a\n", b"caBX"
MARGIN = 1024  # bytes; PNG, WebP and JPEG need different space around a manifest
PURPOSES = ("1.3.6.1.5.5.7.3.4", "1.3.6.1.5.5.7.3.36", "1.3.6.1.4.1.62558.2.1")
"""The extended key usages of signers: emailProtection, documentSigning, and C2PA's own claimSigning."""

SETTINGS: dict[str, Any] = {
    "core": {"allowed_network_hosts": []},
    "trust": {"trust_config": "\n".join(PURPOSES)},
    "builder": {"thumbnail": {"enabled": False}},
    "verify": {
        "verify_after_sign": False,  # the probe at the start has verified a signature of the same certificate
        "ocsp_fetch": False,
        "remote_manifest_fetch": False,
    },
}


class Unusable(Exception):
    """The certificate cannot sign manifests that readers accept; the text says why."""


class ManifestSigner:
    """Signs files with `credentials`; raises Unusable if readers would not accept the signature."""

    def __init__(self, credentials: Credentials) -> None:
        self._lock = threading.Lock()  # only one thread at a time may use the library's objects
        try:
            self._context = c2pa.Context.from_dict(SETTINGS)
            info = c2pa.C2paSignerInfo(
                credentials.algorithm.encode(), credentials.chain, credentials.private_key, None
            )
            self._signer = c2pa.Signer.from_info(info)
            self._room = self._probe()
        except c2pa.C2paError as error:
            raise Unusable(str(error)) from error

    @property
    def room(self) -> int:
        """The most bytes that a manifest adds to a file."""
        return self._room

    def sign(self, data: bytes) -> bytes:
        """Return the PNG, WebP or JPEG `data` with a manifest; raises c2pa.C2paError or ValueError."""
        kind = mime_type(data)
        manifest = json.dumps(manifest_of(PAINTED_OVER if is_painted_over(data) else PAINTED))
        signed = io.BytesIO()
        with self._lock, c2pa.Builder(manifest, self._context) as builder:
            builder.sign(self._signer, kind, io.BytesIO(data), signed)
        return signed.getvalue()

    def _probe(self) -> int:
        """Sign a small picture and read it; return the most bytes that a manifest adds."""
        file = io.BytesIO()
        PIL.Image.new("RGB", (8, 8)).save(file, "PNG")
        signed = self.sign(file.getvalue())
        with c2pa.Reader("image/png", io.BytesIO(signed), context=self._context) as reader:
            said = json.loads(reader.json()).get("validation_status", [])
        if mistakes := [status for status in said if status["code"] != UNTRUSTED]:
            raise Unusable("; ".join(status.get("explanation", status["code"]) for status in mistakes))
        return len(signed) - len(file.getvalue()) + MARGIN


def manifest_of(source_type: str) -> dict[str, Any]:
    """Return the definition of a manifest: this program has made the picture, with a trained model."""
    generator = {"name": NAME}
    with contextlib.suppress(PackageNotFoundError):
        generator["version"] = version(NAME)
    created = {
        "action": "c2pa.created",
        "digitalSourceType": source_type,
        "softwareAgent": generator,
    }
    return {
        "claim_generator_info": [generator],
        "assertions": [{"label": "c2pa.actions.v2", "data": {"actions": [created]}}],
    }


def without_manifest(data: bytes) -> bytes:
    """Return a PNG as it was before it was signed, without the chunk of its manifest; others stay whole."""
    if not data.startswith(PNG):
        return data
    kept, at = [PNG], len(PNG)
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        end = at + length + 12  # length, type and checksum have four bytes each
        if data[at + 4 : at + 8] != MANIFEST_CHUNK:
            kept.append(data[at:end])
        at = end
    return b"".join([*kept, data[at:]])


def mime_type(data: bytes) -> str:
    """Return the MIME type of a PNG, WebP or JPEG file by its first bytes; raises ValueError."""
    if data.startswith(PNG):
        return "image/png"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    raise ValueError("the file is no PNG, WebP or JPEG")
