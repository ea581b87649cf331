"""Writes C2PA manifests into picture files, with c2pa-python.

Certificate status and remote manifests are not fetched, and thumbnails are off. The only server that is asked
is the time-stamp authority, where one is named.
"""

from __future__ import annotations

import contextlib
import io
import json
import struct
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import c2pa
import PIL.Image

from bot.provenance.certificates import Credentials, Now, utc_now
from bot.provenance.claims import generator, source_type_of
from bot.provenance.payload import ALGORITHM, binding_of
from bot.provenance.time_relay import TimeRelay, need_no_proxy
from bot.provenance.time_stamps import ANSWER_SECONDS, NoTimeStamp, TimeStamps
from bot.provenance.xmp import KEYWORD

UNTRUSTED = "signingCredential.untrusted"
PNG = b"\x89PNG\r\n\x1a\n"
MARKS = (b"caBX", b"iTXt" + KEYWORD)  # how the chunks of marks begin
MARGIN = 1024  # bytes; PNG, WebP and JPEG need different space around a manifest
MOST_APART = timedelta(minutes=10)  # of an authority's clock and this machine's
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


PARENT = {"title": "start picture", "relationship": "parentOf", "label": "start"}
INPUTS = {
    "control_image": "control picture",
    "image_prompt": "image prompt",
    "references": "reference picture",
}
"""The titles of inputs by the fields of `inputs_of`."""
Named = Sequence[tuple[dict[str, str], bytes]]
"""The ingredients of a manifest: how each is described, and its file with its own manifest."""


class Unusable(Exception):
    """The certificate cannot sign manifests that readers accept; the text says why."""


class ManifestSigner:
    """Signs files with `credentials`; raises Unusable if readers would not accept the signature.

    Signatures carry a time stamp of `time_authority`, an address, while it answers in time.
    """

    def __init__(self, credentials: Credentials, *, time_authority: str = "", now: Now = utc_now) -> None:
        self._now = now
        self._credentials = credentials
        self._authority = ""  # the probe asks no authority
        self._time_stamps = TimeStamps()
        try:
            self._signer = _Signer(credentials)
            self._room = self._probe()
            if time_authority:
                need_no_proxy()
                self._room += max(0, _Signer(credentials, time_authority).reserve - self._signer.reserve)
        except c2pa.C2paError as error:
            raise Unusable(str(error)) from error
        self._authority = time_authority

    @property
    def room(self) -> int:
        """The most bytes that a manifest adds to a file."""
        return self._room

    def sign(
        self,
        data: bytes,
        parent: bytes | None = None,
        number: int | None = None,
        *,
        inputs: Sequence[tuple[str, bytes]] = (),
    ) -> bytes:
        """Return the PNG, WebP or JPEG `data` with a manifest; raises c2pa.C2paError or ValueError.

        `parent` is the file that the picture was painted from, with its manifest, and `inputs` are files
        that the model was shown, each with a field of INPUTS. They are left out where the library refuses
        one. `number` is that of the picture's watermark.
        """
        named = _ingredients(parent, inputs)
        if named:
            with contextlib.suppress(c2pa.C2paError):
                return self._signed(data, named, number)
        return self._signed(data, (), number)

    def _signed(self, data: bytes, named: Named, number: int | None) -> bytes:
        labels = [described["label"] for described, _ in named]
        described = manifest_of(source_type_of(data), self._now(), labels=labels, number=number)
        manifest = json.dumps(described)
        if self._authority:
            stamped = self._time_stamps.signed(partial(self._stamped, manifest, data, named))
            if stamped is not None:
                return stamped
        return self._signer.sign(manifest, data, named)

    def _stamped(self, manifest: str, data: bytes, named: Named) -> bytes:
        """Sign with a time stamp; raises NoTimeStamp if it cannot be had, and as `sign`."""
        relay = TimeRelay(self._authority, seconds=ANSWER_SECONDS)
        try:
            with relay:
                signer = _Signer(self._credentials, relay.address)
                signed = signer.sign(manifest, data, named)
                self._check_time(signer.read(signed))
                return signed
        except OSError as error:
            raise NoTimeStamp(f"{type(error).__name__}: {error}") from error
        except c2pa.C2paError as error:
            if not relay.asked:
                raise
            raise NoTimeStamp(relay.trouble or f"its answer is refused: {error}") from error

    def _check_time(self, said: dict[str, Any]) -> None:
        """Raise NoTimeStamp unless a signature's time stamp has about the time of this machine's clock."""
        stamped = said["manifests"][said["active_manifest"]]["signature_info"].get("time")
        if stamped is None:
            raise NoTimeStamp("its answer is not in the signature")
        apart = abs(datetime.fromisoformat(stamped) - self._now())
        if apart > MOST_APART:
            raise NoTimeStamp(f"its clock and this machine's are {apart.total_seconds():.0f} s apart")

    def _probe(self) -> int:
        """Sign a small picture and read it; return the most bytes that a manifest adds."""
        file = io.BytesIO()
        PIL.Image.new("RGB", (8, 8)).save(file, "PNG")
        signed = self.sign(file.getvalue(), number=0)
        said = self._signer.read(signed).get("validation_status", [])
        if mistakes := [status for status in said if status["code"] != UNTRUSTED]:
            raise Unusable("; ".join(status.get("explanation", status["code"]) for status in mistakes))
        return len(signed) - len(file.getvalue()) + MARGIN


class _Signer:
    """The library's objects for one key, with a time-stamp authority or without; one thread at a time."""

    def __init__(self, credentials: Credentials, time_authority: str = "") -> None:
        self._lock = threading.Lock()
        self._context = c2pa.Context.from_dict(SETTINGS)
        self._signer = c2pa.Signer.from_info(
            c2pa.C2paSignerInfo(
                credentials.algorithm.encode(),
                credentials.chain,
                credentials.private_key,
                time_authority or None,
            )
        )

    @property
    def reserve(self) -> int:
        """The bytes of a signature."""
        return int(self._signer.reserve_size())

    def sign(self, manifest: str, data: bytes, named: Named) -> bytes:
        """Return the file `data` with the manifest, signed; `named` are its ingredients."""
        signed = io.BytesIO()
        with self._lock, c2pa.Builder(manifest, self._context) as builder:
            for described, file in named:
                builder.add_ingredient_from_stream(json.dumps(described), mime_type(file), io.BytesIO(file))
            builder.sign(self._signer, mime_type(data), io.BytesIO(data), signed)
        return signed.getvalue()

    def read(self, data: bytes) -> dict[str, Any]:
        """Return what the library's reader says about a file with a manifest."""
        with self._lock, c2pa.Reader(mime_type(data), io.BytesIO(data), context=self._context) as reader:
            said: dict[str, Any] = json.loads(reader.json())
        return said


def _ingredients(parent: bytes | None, inputs: Sequence[tuple[str, bytes]]) -> Named:
    found = [] if parent is None else [(PARENT, parent)]
    for number, (field, file) in enumerate(inputs, 1):
        described = {"title": INPUTS[field], "relationship": "inputTo", "label": f"input{number}"}
        found.append((described, file))
    return found


def manifest_of(
    source_type: str, when: datetime, *, labels: Sequence[str] = (), number: int | None = None
) -> dict[str, Any]:
    """Return the definition of a manifest: at `when`, in UTC, this program signed a model's picture.

    `labels` are those of its ingredients: the program has opened `PARENT` and edited it, others were shown to
    the model. With a `number`, that of its watermark, the manifest can be found again by the picture alone.
    """
    parent, shown = PARENT["label"] in labels, [label for label in labels if label != PARENT["label"]]
    made_by = generator()
    at = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    made: dict[str, Any] = {
        "action": "c2pa.edited" if parent else "c2pa.created",
        "when": at,
        "digitalSourceType": source_type,
        "softwareAgent": made_by,
    }
    if shown:
        made["parameters"] = {"ingredientIds": shown}
    opened = {"action": "c2pa.opened", "when": at, "parameters": {"ingredientIds": [PARENT["label"]]}}
    marked = {"action": "c2pa.watermarked.bound", "when": at, "softwareAgent": made_by}
    actions = [*([opened] if parent else []), made, *([] if number is None else [marked])]
    assertions: list[dict[str, Any]] = [{"label": "c2pa.actions.v2", "data": {"actions": actions}}]
    if number is not None:
        blocks = [{"scope": {}, "value": binding_of(number)}]
        assertions.append({"label": "c2pa.soft-binding", "data": {"alg": ALGORITHM, "blocks": blocks}})
    return {"claim_generator_info": [made_by], "assertions": assertions}


def unmarked(data: bytes) -> bytes:
    """Return a PNG as it was before it was marked, without its manifest and XMP; others stay whole."""
    if not data.startswith(PNG):
        return data
    kept, at = [PNG], len(PNG)
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        end = at + length + 12  # length, type and checksum have four bytes each
        if not data.startswith(MARKS, at + 4):
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
