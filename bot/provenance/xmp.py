"""The XMP packet in picture files: marks for readers that do not know C2PA; no signature here.

PNG has it in an iTXt chunk, JPEG in an APP1 segment, WebP in a chunk of its extended form. The digital source
type is IPTC's; `AIGC` is the field of GB 45438-2025, with the namespace of its practice guide.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zlib
from collections.abc import Mapping
from html import unescape
from xml.sax.saxutils import quoteattr

import PIL.Image

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
KEYWORD, END_OF_PNG = b"XML:com.adobe.xmp", b"IEND\xaeB`\x82"
HEADER = b"http://ns.adobe.com/xap/1.0/\0"  # of JPEG's segment
AFTER_HEADER = 33  # the offset of the chunk after a PNG's header
APP0, APP1, MOST_SEGMENT = 0xE0, 0xE1, 65_533
XMP_FLAG, ALPHA_FLAG = 0x04, 0x10  # of WebP's extended header
FRAME = 128  # bytes around a packet in any format, at most

MOST_READ = 1 << 16  # characters of a packet
_SOURCE = re.compile(
    r"DigitalSourceType\s*(?:=\s*[\"']|(?:\s[^<>]{0,200}resource=[\"'])|>)\s*([^\"'<>\s]{1,200})"
)
_AIGC = re.compile(r"[:\s]AIGC\s*(?:=\s*(?P<quote>[\"'])(.*?)(?P=quote)|>([^<]*)<)", re.DOTALL)


def packet(source_type: str, tool: str, *, aigc: Mapping[str, str] | None = None) -> bytes:
    """Return an XMP packet that names the digital source type (an address) and the tool; `aigc` as JSON."""
    attributes = {
        "xmlns:xmp": "http://ns.adobe.com/xap/1.0/",
        "xmlns:Iptc4xmpExt": "http://iptc.org/std/Iptc4xmpExt/2008-02-29/",
        "xmp:CreatorTool": tool,
        "Iptc4xmpExt:DigitalSourceType": source_type,
        "Iptc4xmpExt:AISystemUsed": tool,
    }
    if aigc is not None:
        attributes["xmlns:TC260"] = "http://www.tc260.org.cn/ns/AIGC/1.0/"
        attributes["TC260:AIGC"] = json.dumps(aigc, ensure_ascii=False, separators=(",", ":"))
    described = " ".join(f"{name}={quoteattr(value)}" for name, value in attributes.items())
    text = (
        '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
        '<x:xmpmeta xmlns:x="adobe:ns:meta/">'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        f'<rdf:Description rdf:about="" {described}/>'
        '</rdf:RDF></x:xmpmeta><?xpacket end="r"?>'
    )
    return text.encode()


def with_packet(data: bytes, xmp: bytes) -> bytes:
    """Return a PNG, WebP or JPEG without XMP with this packet; raises ValueError for any other file."""
    if data.startswith(PNG):
        if not data.endswith(END_OF_PNG):
            raise ValueError("the PNG has no end")
        return data[:AFTER_HEADER] + chunk(b"iTXt", KEYWORD + bytes(5) + xmp) + data[AFTER_HEADER:]
    if data.startswith(JPEG + b"\xff"):
        return _in_jpeg(data, xmp)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _in_webp(data, xmp)
    raise ValueError("the file is no PNG, WebP or JPEG")


def source_type_in(xmp: str) -> str | None:
    """Return the last word of the digital source type that a packet names; it is not parsed as XML."""
    found = _SOURCE.search(xmp[:MOST_READ])
    return found[1].rpartition("/")[2] if found else None


def aigc_in(xmp: str) -> str | None:
    """Return the text of the field `AIGC` of a packet."""
    found = _AIGC.search(xmp[:MOST_READ])
    return unescape(found[2] or found[3] or "") if found else None


def chunk(kind: bytes, content: bytes) -> bytes:
    """Return a chunk of PNG."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _in_jpeg(data: bytes, xmp: bytes) -> bytes:
    """Insert the segment after those of JFIF and EXIF, which are the first."""
    content = HEADER + xmp
    if len(content) > MOST_SEGMENT:
        raise ValueError("the packet is too long for JPEG")
    at = len(JPEG)
    while data[at : at + 1] == b"\xff" and data[at + 1] in (APP0, APP1):
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return data[:at] + struct.pack(">BBH", 0xFF, APP1, len(content) + 2) + content + data[at:]


def _in_webp(data: bytes, xmp: bytes) -> bytes:
    """Append the chunk; a file of the simple form becomes one of the extended form."""
    body = data[12:]
    if body[:4] == b"VP8X":
        body = body[:8] + bytes([body[8] | XMP_FLAG]) + body[9:]
    else:
        with PIL.Image.open(io.BytesIO(data), formats=["WEBP"]) as picture:
            flags = XMP_FLAG | (ALPHA_FLAG if picture.mode == "RGBA" else 0)
            width, height = (side - 1 for side in picture.size)
        sizes = width.to_bytes(3, "little") + height.to_bytes(3, "little")
        body = b"VP8X" + struct.pack("<I", 10) + bytes([flags, 0, 0, 0]) + sizes + body
    body += b"XMP " + struct.pack("<I", len(xmp)) + xmp + bytes(len(xmp) % 2)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body
