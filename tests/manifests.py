"""Reads the manifest of a picture with the library's own reader."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

import c2pa
import PIL.Image

from bot.provenance.manifests import mime_type

RIGHT = {"claimSignature.validated", "assertion.dataHash.match", "claimSignature.insideValidity"}
OFFLINE = {"ocsp_fetch": False, "remote_manifest_fetch": False}


def png() -> bytes:
    """Return a small black PNG."""
    file = io.BytesIO()
    PIL.Image.new("RGB", (8, 8)).save(file, "PNG")
    return file.getvalue()


@dataclass(frozen=True, kw_only=True)
class Read:
    """The active manifest, and what the reader has found right and wrong."""

    manifest: dict[str, Any]
    state: str
    right: set[str]
    wrong: set[str]

    @property
    def action(self) -> dict[str, Any]:
        """The action that made the picture."""
        (actions,) = self.manifest["assertions"]
        (created,) = actions["data"]["actions"]
        assert created["action"] == "c2pa.created"
        return dict(created)

    @property
    def source_type(self) -> str:
        """The last word of the source type of the action that made the picture."""
        created = self.action
        return str(created["digitalSourceType"]).removeprefix(
            "http://cv.iptc.org/newscodes/digitalsourcetype/"
        )


def read_manifest(data: bytes) -> Read:
    """Return the manifest of a file; raises c2pa.C2paError without any."""
    with (
        c2pa.Context.from_dict({"verify": OFFLINE}) as context,
        c2pa.Reader(mime_type(data), io.BytesIO(data), context=context) as reader,
    ):
        found = json.loads(reader.json())
    results = found["validation_results"]["activeManifest"]
    return Read(
        manifest=found["manifests"][found["active_manifest"]],
        state=found["validation_state"],
        right={status["code"] for status in results["success"]},
        wrong={status["code"] for status in results["failure"]},
    )
