"""A reader can follow one /imagine through the front: it passes few files, and is seldom called back.

`python benchmarks/walk.py imagine --list` prints every function that a request passes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
WALK = """
import asyncio, json
from walk import imagine_walk
walk = asyncio.run(imagine_walk())
print(json.dumps({**walk.figures(), "files": sorted(set(walk.files))}))
"""


def test_one_imagine_passes_31_files_and_is_called_back_3_times_at_most() -> None:
    """The walk has a process of its own: it would also pass what other tests leave, such as log handlers."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'benchmarks')]}\n{WALK}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    walk: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert walk["functions"] > 100  # else it was not followed
    assert len(walk["files"]) <= 31, walk["files"]
    assert walk["re-entries"] <= 3
