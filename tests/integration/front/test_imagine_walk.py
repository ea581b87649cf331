"""A reader can follow one /imagine through the front: it passes few files, and is seldom called back.

`python benchmarks/walk.py imagine --list` prints every function that a request passes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from walk import imagine_walk


async def test_one_imagine_passes_28_files_and_is_called_back_3_times_at_most() -> None:
    walk = await imagine_walk()
    figures = walk.figures()
    assert figures["functions"] > 100  # else it was not followed
    assert len(set(walk.files)) <= 28
    assert figures["re-entries"] <= 3
