"""A time-stamp authority (RFC 3161) on this machine: OpenSSL's, behind a server of HTTP."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CONFIG = """[tsa]
default_tsa = stamp
[stamp]
serial = serial
signer_cert = signer.pem
certs = authority.pem
signer_key = signer.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
accuracy = secs:1
"""
SIGNER = "keyUsage=critical,digitalSignature\nextendedKeyUsage=critical,timeStamping\n"
KEY = ("-newkey", "rsa:2048", "-nodes")


Changed = Callable[[bytes], bytes]
"""Returns what the authority answers instead of a right reply; may wait."""


@contextmanager
def time_authority(folder: Path, *, changed: Changed = bytes) -> Iterator[str]:
    """Yield the authority's address."""
    _make_keys(folder)
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            with one_at_a_time:
                (folder / "query").write_bytes(query)
                answering = ["ts", "-reply", "-config", "tsa.cnf", "-queryfile", "query", "-out", "reply"]
                _openssl(folder, *answering)
                reply = (folder / "reply").read_bytes()
            reply = changed(reply)
            self.send_response(200)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _make_keys(folder: Path) -> None:
    (folder / "tsa.cnf").write_text(CONFIG)
    (folder / "signer.ext").write_text(SIGNER)
    usage = ("-addext", "keyUsage=critical,keyCertSign")
    _openssl(
        *(folder, "req", "-x509", *KEY, "-keyout", "authority.key", "-out", "authority.pem", *usage),
        *("-days", "30", "-subj", "/CN=authority"),
    )
    _openssl(folder, "req", *KEY, "-keyout", "signer.key", "-out", "signer.csr", "-subj", "/CN=signer")
    _openssl(
        *(folder, "x509", "-req", "-in", "signer.csr", "-CA", "authority.pem", "-CAkey", "authority.key"),
        *("-CAcreateserial", "-days", "30", "-extfile", "signer.ext", "-out", "signer.pem"),
    )


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
