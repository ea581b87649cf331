"""Checkpoints on the hub, downloaded to the hub's own cache and found there without a network."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import close_session, errors, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import tqdm as hub_tqdm

from sdjax_engine.errors import UnreadableCheckpoint, first_line
from sdjax_engine.families import pipelines
from sdjax_engine.json_files import read_json
from sdjax_engine.weights.files import (
    FLAX,
    INDEX,
    TEXT_FILES,
    USUAL,
    HubOptions,
    Report,
    weight_patterns,
)

SECONDS_BETWEEN_REPORTS = 2.0
FORBIDDEN = (401, 403)
_ADDRESS = re.compile(r"https?://[^\s'\"]+(?<![:.])")
# Errors of connections that fail during a transfer: those of the client's HTTP library, from which the hub's
# errors derive, and those of its second transfer method.
CUT_OFF: tuple[type[Exception], ...] = (
    OSError,
    HfHubHTTPError.__bases__[0],
    *(getattr(errors, name) for name in ("XetDownloadError",) if hasattr(errors, name)),
)


def download(
    repo_id: str,
    *,
    revision: str | None,
    variant: str | None,
    weights: bool = True,
    replaced: Collection[str] = (),
    safety_checker: bool = False,
    report: Report | None = None,
    hub: HubOptions = USUAL,
) -> Path:
    """Download the missing files into the hub's cache and return the snapshot's folder.

    Only configurations, tokenizer files and the wanted safetensors are fetched; a component without files of
    `variant` is fetched without a variant. The networks that are `replaced`, "vae" or "denoiser", are left
    out. An interrupted download is resumed. Raises UnreadableCheckpoint.
    """
    folder = fetch(repo_id, TEXT_FILES, revision=revision, report=report, hub=hub)
    if not weights:
        return folder
    left_out = {*replaced, *(() if safety_checker else ("safety_checker",))}
    wanted = [name for role, name in components_of(folder) if left_out.isdisjoint((role, name))]
    patterns = [each for name in wanted for each in weight_patterns(name, variant)]
    if patterns:
        fetch(repo_id, patterns, revision=revision, report=report, hub=hub)
    bare = [name for name in wanted if variant and not any((folder / name).glob("*.safetensors"))]
    if bare:
        plain = [each for name in bare for each in weight_patterns(name, None)]
        fetch(repo_id, plain, revision=revision, report=report, hub=hub)
    return folder


def components_of(folder: Path) -> list[tuple[str, str]]:
    """Return the networks that model_index.json names, as "denoiser" or their names, and by their names.

    None if it is invalid: the reader reports that.
    """
    try:
        index = read_json(folder / INDEX)
    except UnreadableCheckpoint:
        return []
    pipeline = str(index.get("_class_name")).removeprefix(FLAX)
    family = pipelines().get(pipeline)
    known = family.classes(pipeline) if family else {}
    named = {name: value for name, value in index.items() if isinstance(value, list) and value}
    roles = {family.adaptable[0]: "denoiser"} if family else {}
    names = (name for name in (*known, "safety_checker") if name in named and named[name][-1] is not None)
    return [(roles.get(name, name), name) for name in names]


def fetch(
    repo_id: str,
    patterns: Sequence[str],
    *,
    revision: str | None,
    report: Report | None = None,
    hub: HubOptions = USUAL,
) -> Path:
    """Fetch the files of these patterns and return the snapshot's folder; raises UnreadableCheckpoint."""
    with refusals(repo_id), through(hub.proxies or {}):
        return Path(
            snapshot_download(
                repo_id,
                revision=revision,
                allow_patterns=list(patterns),
                cache_dir=hub.cache_dir,
                local_files_only=hub.local_files_only,
                token=hub.token,
                tqdm_class=progress_bar(repo_id, report),
            )
        )


@contextmanager
def through(proxies: Mapping[str, str]) -> Iterator[None]:
    """Send the requests of this process through these proxies, by protocol, within the block."""
    names = {f"{protocol.upper()}_PROXY": address for protocol, address in proxies.items()}
    before = {name: os.environ.get(name) for name in names}
    if names:
        close_session()  # a client reads the environment when it is made
    os.environ.update(names)
    try:
        yield
    finally:
        for name, address in before.items():
            if address is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = address
        if names:
            close_session()


@contextmanager
def refusals(repo_id: str) -> Iterator[None]:
    """Turn the hub's errors into one sentence each, with the checkpoint's name in quotes."""
    try:
        yield
    except GatedRepoError as error:
        raise UnreadableCheckpoint(
            f"“{repo_id}” asks for its terms to be accepted: do so on its page, then log in with "
            f"`hf auth login` or set HF_TOKEN."
        ) from error
    except RevisionNotFoundError as error:
        raise UnreadableCheckpoint(f"“{repo_id}” has no such revision: correct the key revision.") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise UnreadableCheckpoint(
            f"There is neither a folder “{repo_id}” nor a checkpoint of that name on the hub that you may "
            f"read: if it is private, log in with `hf auth login` or set HF_TOKEN."
        ) from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise UnreadableCheckpoint(not_reached(repo_id, error)) from error
    except HfHubHTTPError as error:
        raise UnreadableCheckpoint(
            f"The hub refuses “{repo_id}”: {_reason(error)}"
            if error.response.status_code not in FORBIDDEN
            else f"The hub does not let you read “{repo_id}”: log in with `hf auth login` or set HF_TOKEN."
        ) from error
    except CUT_OFF as error:
        raise UnreadableCheckpoint(not_reached(repo_id, error)) from error


def not_reached(repo_id: str, error: Exception) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    return (
        f"There is no folder “{repo_id}”, and the hub cannot be reached for a checkpoint of that name: "
        f"{_reason(cause)}"
    )


def _reason(error: Exception) -> str:
    """Return the first line of an error, without addresses: they contain the names of what was asked."""
    return _ADDRESS.sub("the hub", first_line(error))


def progress_bar(repo_id: str, report: Report | None) -> type[Any]:
    """Return a class of hub progress bars that calls `report`, at most every few seconds."""

    class Bar(hub_tqdm):  # type: ignore[misc, unused-ignore]
        """Counts like the hub's bars, without output on a terminal."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.is_bytes = kwargs.get("name") == "huggingface_hub.snapshot_download"
            self.reported_at = time.monotonic()
            self.lock = threading.Lock()
            super().__init__(*args, **(kwargs | {"disable": True}))
            self.n = 0

        def update(self, n: float | None = 1) -> None:
            with self.lock:
                self.n += int(n or 0)
                now = time.monotonic()
                due = now - self.reported_at >= SECONDS_BETWEEN_REPORTS or self.n == self.total
                if self.is_bytes and report is not None and n and due:
                    self.reported_at = now
                    report(
                        f"{repo_id}: {megabytes(self.n)} of {megabytes(self.total or self.n)} MB downloaded"
                    )

    return Bar


def megabytes(count: float) -> str:
    """Return a number of bytes in megabytes, with one decimal below ten."""
    millions = count / 1e6
    return f"{millions:.1f}" if millions < 10 else f"{millions:.0f}"
