"""Paths in the configuration, and addresses for pictures."""

from __future__ import annotations

from typing import Any

import pytest
from test_config import mistakes_in

from bot.config import Config

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
        *(
            ({"queue": {"artifacts": f"{scheme}{'x' * 256}"}}, f"queue.artifacts: {LIMITS}")
            for scheme in ("", "file://", "local://")
        ),
        (
            {"queue": {"artifacts": "s3://a\0b"}},
            "queue.artifacts: no file has a null character in its path.",
        ),
        ({"models": [{"loras": {"ink": "x" * 256}}]}, f"models[1].loras.ink: {LIMITS}"),
        (
            {"queue": {"database": f"sqlite+aiosqlite:///var/{'x' * 256}?timeout=1"}},
            f"queue.database: {LIMITS}",
        ),
        ({"models": [{"checkpoint": ""}]}, "models[1].checkpoint: it may not be empty, not “”."),
        ({"queue": {"artifacts": ""}}, "queue.artifacts: it may not be empty."),
        ({"provenance": {"folder": ""}}, "provenance.folder: it may not be empty, not “”."),
    ],
)
def test_a_text_that_no_path_can_be_is_one_mistake(document: dict[str, Any], sentence: str) -> None:
    assert mistakes_in(document) == [sentence]


@pytest.mark.parametrize("place", [f"s3://bucket/{'x' * 300}", f"webdav+https://bot:{'x' * 300}@host/"])
def test_an_address_for_pictures_has_not_the_limits_of_a_path(place: str) -> None:
    assert Config.parse({"queue": {"artifacts": place}}).queue.artifacts == place
