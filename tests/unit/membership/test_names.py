"""Names that no two living processes share, and that a process keeps after a restart."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from bot.domain.errors import ConfigurationError
from bot.membership.names import take_name

HOST = socket.gethostname()
HOLDER = """
import sys
from pathlib import Path
from bot.membership.names import take_name
with take_name("queue", "worker", folder=Path(sys.argv[1])) as name:
    print(name, flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def test_living_processes_have_different_names_and_the_next_takes_the_first_free_one(tmp_path: Path) -> None:
    with ExitStack() as first, ExitStack() as second:
        one = first.enter_context(take_name("queue", "worker", folder=tmp_path))
        two = second.enter_context(take_name("queue", "worker", folder=tmp_path))
        assert [one.name, two.name] == [f"{HOST}-worker-1", f"{HOST}-worker-2"]
        first.close()
        with take_name("queue", "worker", folder=tmp_path) as again:
            assert again == one
    assert one.secret != two.secret


def test_a_killed_process_s_name_is_free_at_once(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"{HOST}-worker-1"
        with take_name("queue", "worker", folder=tmp_path) as other:
            assert other.name == f"{HOST}-worker-2"
        process.kill()
        process.wait()
        with take_name("queue", "worker", folder=tmp_path) as heir:
            assert heir.name == f"{HOST}-worker-1"


def test_names_of_another_queue_do_not_count(tmp_path: Path) -> None:
    with (
        take_name("queue", "worker", folder=tmp_path) as one,
        take_name("other", "worker", folder=tmp_path) as other,
    ):
        assert one.name == other.name
        assert one.secret != other.secret


def test_a_folder_that_others_may_write_is_not_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with (
        pytest.raises(ConfigurationError, match="others may write it"),
        take_name("queue", "worker", folder=tmp_path),
    ):
        pass


def test_a_front_and_a_worker_never_share_a_name(tmp_path: Path) -> None:
    with (
        take_name("queue", "front", folder=tmp_path) as one,
        take_name("queue", "worker", folder=tmp_path) as two,
    ):
        assert [one.name, two.name] == [f"{HOST}-front-1", f"{HOST}-worker-1"]
