"""The sandbox's README shows a program that runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import bot.sandbox

README = Path(bot.sandbox.__file__).with_name("README.md")


def test_the_program_in_the_readme_runs_without_the_rest_of_the_bot(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    alone = (
        "import sys; sys.modules.update(dict.fromkeys(['discord', 'sqlalchemy', 'jax', 'sdjax_engine']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", alone + program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "Mina sees 4 channels" in done.stdout
    assert done.stdout.endswith("violations so far: []\n")
