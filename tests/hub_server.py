"""A hub on 127.0.0.1 that speaks enough of the real one's file API for the real `huggingface_hub`.

It serves folders as repositories, can require a token, and can cut a connection during a transfer.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass(kw_only=True)
class Repository:
    """A folder for each revision; files need `token`; a `hidden` repository needs it for any answer.

    The first answer for a file in `cut` ends after half of its bytes.
    """

    revisions: dict[str, Path]
    token: str | None = None
    hidden: bool = False
    cut: set[str] = field(default_factory=set)


@dataclass(kw_only=True)
class Hub:
    """The repositories by id, and the requests: method, path in the repository, first byte."""

    repositories: dict[str, Repository]
    endpoint: str = ""
    asked: list[tuple[str, str, str, int]] = field(default_factory=list)

    def fetched(self, repo_id: str) -> list[tuple[str, int]]:
        """Return the sent files of a repository, each with the first requested byte."""
        return [
            (path, first) for method, repo, path, first in self.asked if (method, repo) == ("GET", repo_id)
        ]


@contextmanager
def serve(repositories: dict[str, Repository]) -> Iterator[Hub]:
    """Run a hub with these repositories until the block ends."""
    hub = Hub(repositories=repositories)

    class Bound(Handler):
        pass

    Bound.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def commit_of(revision: str) -> str:
    return hashlib.sha1(revision.encode()).hexdigest()


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


class Handler(BaseHTTPRequestHandler):
    """Answers `/api/models/…` with a repository's contents and `/OWNER/NAME/resolve/…` with its files."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        api = parts[:2] == ["api", "models"]
        owner, name, verb, revision, *rest = [*(parts[2:] if api else parts), "", ""][: max(len(parts), 5)]
        repository = self.hub.repositories.get(f"{owner}/{name}")
        folder = repository and self.revision(repository, revision)
        if repository is None or (repository.hidden and not self.may_read(repository)):
            self.refuse(401, "RepoNotFound")
        elif folder is None:
            self.refuse(404, "RevisionNotFound")
        elif api and verb == "tree":
            self.answer_json(
                [
                    {
                        "type": "file",
                        "path": path,
                        "size": (folder / path).stat().st_size,
                        "oid": oid(folder / path),
                    }
                    for path in files_in(folder)
                ]
            )
        elif api:
            self.answer_json(
                {"id": f"{owner}/{name}", "sha": self.commit(repository, revision), "siblings": []}
            )
        elif not self.may_read(repository):
            self.refuse(403, "GatedRepo")
        else:
            self.send_file(
                f"{owner}/{name}", repository, folder, "/".join(each for each in rest if each), revision
            )

    def revision(self, repository: Repository, revision: str) -> Path | None:
        for name, folder in repository.revisions.items():
            if revision in (name, commit_of(name)):
                return folder
        return None

    def commit(self, repository: Repository, revision: str) -> str:
        return commit_of(revision) if revision in repository.revisions else revision

    def may_read(self, repository: Repository) -> bool:
        return repository.token is None or self.headers.get("Authorization") == f"Bearer {repository.token}"

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer_json(self, content: object) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_file(self, repo_id: str, repository: Repository, folder: Path, path: str, revision: str) -> None:
        data = (folder / path).read_bytes()
        first = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.hub.asked.append((self.command, repo_id, path, first))
        self.send_response(206 if first else 200)
        self.send_header("ETag", f'"{oid(folder / path)}"')
        self.send_header("X-Repo-Commit", self.commit(repository, revision))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data) - first))
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        if path in repository.cut:
            repository.cut.remove(path)
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            return
        self.wfile.write(data[first:])


def oid(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
