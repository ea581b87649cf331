"""Time stamps of an authority in signatures: with a right one, a hostile one, and one that comes back."""

from __future__ import annotations

import os
import queue
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from manifests import png, read_manifest
from time_authority import time_authority

from bot.config import ProvenanceConfig
from bot.provenance import manifests
from bot.provenance.certificates import self_made
from bot.provenance.manifests import ManifestSigner
from bot.provenance.opening import open_signing
from bot.provenance.signing import Signing
from bot.provenance.time_relay import MOST_BYTES, TimeRelay
from bot.provenance.time_stamps import NoTimeStamp, TimeStamps

PROBE = """
import sys
from bot.config import ProvenanceConfig
from bot.provenance.opening import open_signing
sys.path[:0] = sys.argv[1:2]
from manifests import png, read_manifest
signing = open_signing(ProvenanceConfig(folder=sys.argv[2], time_authority=sys.argv[3]))
print("time" in read_manifest(signing.signed(png())).manifest["signature_info"])
"""


def stamping(folder: Path, address: str, **further: object) -> Signing:
    config = ProvenanceConfig(folder=str(folder / "provenance"), time_authority=address)
    return open_signing(config.model_copy(update=further))


def is_stamped(signed: bytes) -> bool:
    found = read_manifest(signed)
    assert found.state == "Valid"
    return "time" in found.manifest["signature_info"]


@contextmanager
def raw_server(*parts: bytes, endless: bool = False) -> Iterator[tuple[str, list[int]]]:
    """Yield the address of a server that answers each request with these bytes, and how many it could send.

    With `endless` the last part is repeated until the other side closes, slowly if it is one byte. Without
    parts it stays silent.
    """
    sent: list[int] = []
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                sent.append(0)
                try:
                    for part in parts:
                        connection.sendall(part)
                    while endless:
                        connection.sendall(parts[-1])
                        sent[-1] += len(parts[-1])
                        if len(parts[-1]) == 1:
                            over.wait(0.01)
                except OSError:
                    continue
                if not parts:
                    over.wait()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", sent
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)
    thread.join(5.0)


def head(status: str = "200 OK", *fields: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode()


def test_signatures_carry_the_time_of_an_authority(tmp_path: Path) -> None:
    with time_authority(tmp_path) as address:
        stamped = stamping(tmp_path, address)
        signed = stamped.signed(png())
    assert is_stamped(signed)
    assert not is_stamped(stamping(tmp_path, "").signed(png()))
    assert len(signed) <= len(png()) + stamped.room


@pytest.mark.parametrize(
    ("parts", "endless", "said"),
    [
        ((head(), b"\0" * 65536), True, "its answer has more than 64 KiB"),
        ((head("200 OK", "Content-Length: 1099511627776"), b"\0" * 65536), True, "more than 64 KiB"),
        ((head("500 Internal Server Error", "Content-Length: 0"),), False, "the HTTP status 500"),
        ((head("302 Found", "Location: http://127.0.0.1:9/", "Content-Length: 0"),), False, "status 302"),
        ((head("200 OK", "Content-Length: 9"), b"x"), False, "Client"),
        ((b"SSH-2.0-OpenSSH_9.2\r\n",), False, "Error"),
        ((), False, "no answer within 0.5 s"),
        ((head("200 OK"), b"x"), True, "no answer within 0.5 s"),
    ],
    ids=["endless", "a terabyte", "error", "redirect", "cut", "no HTTP", "silent", "byte by byte"],
)
def test_what_an_authority_sends_is_bounded_in_time_and_bytes(
    parts: tuple[bytes, ...], endless: bool, said: str
) -> None:
    with raw_server(*parts, endless=endless) as (authority, sent):
        relay = TimeRelay(authority, seconds=0.5)
        began = time.monotonic()
        assert relay.answer(b"a query") == b""
        assert time.monotonic() - began < 5.0
    assert said in relay.trouble
    assert sum(sent) < 20 * 1024 * 1024  # what the buffers of two sockets hold


def test_the_relay_of_a_request_closes_without_one() -> None:
    with TimeRelay("http://127.0.0.1:9", seconds=0.05) as relay:
        address = relay.address
    for thread in threading.enumerate():
        if thread.name == "time relay":
            thread.join()
    assert not relay.asked
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))


def test_an_answer_is_passed_on_as_it_is() -> None:
    answer = os.urandom(MOST_BYTES)
    with raw_server(head("200 OK", f"Content-Length: {MOST_BYTES}"), answer) as (authority, _):
        assert TimeRelay(authority, seconds=5.0).answer(b"a query") == answer


@pytest.mark.parametrize("wrong", ["garbage", "empty", "cut", "changed", "of another request"])
def test_a_wrong_answer_costs_the_time_stamp_alone_and_its_reason_is_logged_once(
    wrong: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    earlier: list[bytes] = []

    def changed(reply: bytes) -> bytes:
        earlier.append(reply)
        return {
            "garbage": b"<html>log in first</html>",
            "empty": b"",
            "cut": reply[:-40],
            "changed": reply[:200] + bytes([reply[200] ^ 1]) + reply[201:],
            "of another request": earlier[0],
        }[wrong]

    with time_authority(tmp_path, changed=changed) as address:
        signing = stamping(tmp_path, address, required=True)
        signed = [is_stamped(signing.signed(png())) for _ in range(3)]
    assert signed == [wrong == "of another request", False, False]
    [record] = caplog.records
    assert "signed without a time stamp" in record.message
    reason = "its answer has no bytes" if wrong == "empty" else "its answer is refused: "
    assert reason in record.message


def test_a_time_stamp_that_is_far_from_this_machines_time_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with time_authority(tmp_path) as address:

        def signed(*, ahead: timedelta) -> bytes:
            now = lambda: datetime.now(UTC) + ahead  # noqa: E731
            return ManifestSigner(self_made(), time_authority=address, now=now).sign(png())

        assert is_stamped(signed(ahead=timedelta(minutes=5)))
        assert is_stamped(signed(ahead=timedelta(minutes=-5)))
        assert not caplog.records
        assert not is_stamped(signed(ahead=timedelta(minutes=15)))
        assert not is_stamped(signed(ahead=timedelta(minutes=-15)))
    assert "its clock and this machine's are " in caplog.records[0].message


def test_pictures_have_time_stamps_again_after_an_outage_of_any_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(manifests, "TimeStamps", partial(TimeStamps, seconds=0.5, pause=0.0))
    monkeypatch.setattr(manifests, "ANSWER_SECONDS", 0.5)
    broken = threading.Event()
    broken.set()

    def changed(reply: bytes) -> bytes:
        return b"\0" * (MOST_BYTES + 1) if broken.is_set() else reply

    with time_authority(tmp_path, changed=changed) as address:
        signing = stamping(tmp_path, address)
        assert not is_stamped(signing.signed(png()))
        broken.clear()
        assert not is_stamped(signing.signed(png()))  # its request is the one that no picture waits for
        join_requests()
        assert is_stamped(signing.signed(png()))
    assert "more than 64 KiB" in caplog.records[0].message


def join_requests() -> None:
    for thread in threading.enumerate():
        if thread.name == "time stamp":
            thread.join()


def test_many_files_at_once_ask_side_by_side_and_an_outage_delays_them_by_one_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    count = 8
    together = threading.Barrier(count)

    def changed(reply: bytes) -> bytes:
        together.wait()  # passes once all have asked
        return reply

    with time_authority(tmp_path, changed=changed) as address, ThreadPoolExecutor(count) as threads:
        signing = stamping(tmp_path, address)
        assert [*map(is_stamped, threads.map(signing.signed, [png()] * count))] == [True] * count
    assert not caplog.records
    with raw_server() as (address, _), ThreadPoolExecutor(count) as threads:
        signing = stamping(tmp_path, address)
        began = time.monotonic()
        assert [*map(is_stamped, threads.map(signing.signed, [png()] * count))] == [False] * count
        assert time.monotonic() - began < 2 * manifests.ANSWER_SECONDS
        began = time.monotonic()
        assert not is_stamped(signing.signed(png()))
        assert time.monotonic() - began < 1.0
    assert len(caplog.records) == 1


def test_a_process_that_may_open_no_more_files_signs_without_a_time_stamp(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    signing = stamping(tmp_path, "http://127.0.0.1:9")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        signed = signing.signed(png())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not is_stamped(signed)
    assert "Too many open files" in caplog.records[0].message


def test_a_file_that_cannot_be_signed_is_no_failure_of_the_authority(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with time_authority(tmp_path) as address:
        signing = stamping(tmp_path, address)
        assert signing.signed(png()[:60]) == png()[:60]  # the start of a file
        assert is_stamped(signing.signed(png()))
    assert not [record for record in caplog.records if "time stamp" in record.message]


def test_after_a_failure_no_picture_waits_and_at_most_one_request_a_pause_asks_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    now, asked, go_on = 0.0, list[float](), threading.Event()

    def hang() -> bytes:
        asked.append(now)
        go_on.wait()
        return b""

    stamps = TimeStamps(seconds=0.01, pause=60.0, clock=lambda: now)
    assert [stamps.signed(hang), stamps.signed(hang)] == [None, None]
    now = 61.0
    assert [stamps.signed(hang), stamps.signed(hang)] == [None, None]
    go_on.set()
    join_requests()
    assert asked == [0.0, 61.0]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]  # and is back


def test_after_an_outage_no_picture_waits_until_the_authority_has_answered_again() -> None:
    now, asked, go_on = 0.0, queue.SimpleQueue[float](), threading.Event()

    def fail() -> bytes:
        raise NoTimeStamp("no route")

    def slow() -> bytes:
        asked.put(now)
        go_on.wait()
        return b"stamped"

    stamps = TimeStamps(seconds=5.0, pause=60.0, clock=lambda: now)
    assert stamps.signed(fail) is None
    assert stamps.signed(slow) is None
    assert asked.empty()  # the pause has not ended
    now = 61.0
    assert stamps.signed(slow) is None  # at once, while its request is under way
    assert asked.get(timeout=5.0) == 61.0
    assert stamps.signed(fail) is None
    go_on.set()
    join_requests()
    assert stamps.signed(lambda: b"stamped") == b"stamped"


def test_an_authority_on_this_machine_is_asked_without_the_proxies_of_the_environment(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[2])
    proxies = {"HTTP_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}
    with time_authority(tmp_path) as address:
        command = [sys.executable, "-c", PROBE, tests, str(tmp_path / "provenance"), address]
        done = subprocess.run(
            command, env={**os.environ, **proxies}, capture_output=True, text=True, timeout=60, check=True
        )
    assert done.stdout == "True\n"
