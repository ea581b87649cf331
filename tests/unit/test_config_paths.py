"""Paths in the configuration, and addresses for pictures."""

from __future__ import annotations

from typing import Any

import pytest
from test_config import mistakes_in

LIMITS = "a path has at most 255 bytes in each name, and 2000 in all."


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (
            {"provenance": {"certificate": "a\0b", "private_key": "x"}},
            "provenance.certificate: no file has a null character in its path.",
        ),
        (
            {"prompts": {"styles_file": "\0"}},
            "prompts.styles_file: no file has a null character in its path.",
        ),
        *(
            ({"engine": {"cache_dir": path}}, f"engine.cache_dir: {LIMITS}")
            for path in ("그" * 86, "/".join(["folder"] * 400))
        ),
        ({"models": [{"loras": {"ink": "x" * 256}}]}, f"models[1].loras.ink: {LIMITS}"),
        (
            {"queue": {"database": f"sqlite+aiosqlite:///var/{'x' * 256}?timeout=1"}},
            f"queue.database: {LIMITS}",
        ),
        ({"models": [{"checkpoint": ""}]}, "models[1].checkpoint: it may not be empty, not “”."),
        ({"queue": {"artifacts": ""}}, "queue.artifacts: it may not be empty, not “”."),
        ({"provenance": {"folder": ""}}, "provenance.folder: it may not be empty, not “”."),
    ],
)
def test_a_text_that_no_path_can_be_is_one_mistake(document: dict[str, Any], sentence: str) -> None:
    assert mistakes_in(document) == [sentence]
