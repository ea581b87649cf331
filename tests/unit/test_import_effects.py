"""Importing the engine changes no settings of the process: only the application does."""

from __future__ import annotations

import subprocess
import sys

WATCHED = """
import ctypes, gc, signal, sys, threading

def refuse(*_arguments):
    raise AssertionError("the import changed the garbage collector")

before = gc.isenabled(), gc.get_threshold(), signal.getsignal(signal.SIGTERM), sys.getswitchinterval()
gc.disable = gc.enable = gc.freeze = gc.set_threshold = refuse
import sdjax_engine
sdjax_engine.Engine, sdjax_engine.EngineConfig, sdjax_engine.FlaxStableDiffusionPipeline
import sdjax_engine.memory.devices, sdjax_engine.memory.residency
after = gc.isenabled(), gc.get_threshold(), signal.getsignal(signal.SIGTERM), sys.getswitchinterval()
assert before == after, (before, after)
assert gc.get_freeze_count() == 0
assert threading.enumerate() == [threading.main_thread()]
"""


def test_an_import_of_the_engine_changes_nothing_of_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
