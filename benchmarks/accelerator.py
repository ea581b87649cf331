"""Every measurement of an accelerator in one run, and a page of its results; `make accelerator` calls it.

    python benchmarks/accelerator.py --on gpu [--page FILE] [--room FOLDER] [--torch-python PYTHON]
    python benchmarks/accelerator.py --on cpu        # the rehearsal: each part with the demo checkpoint

The parts run one after the other, each in a process of its own: pictures against the reference, the seconds
of dispatching beside those of finishing, pictures a second beside torch, attention, and starts. If a part
fails, the page says so, and the other parts still run. The page is written again after each part. The exit
status is 0 if every part ran.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from accelerator_page import Outcome, page
from accelerator_parts import DEVICES, PLATFORMS, Part, parts_for
from conditions import processor

ROOT = Path(__file__).parents[1]
FACTS = """
import importlib.metadata, json, jax
from jax.extend.backend import get_backend
first = jax.local_devices()[0]
memory = (first.memory_stats() or {}).get("bytes_limit")
told = {"platform": first.platform, "device": f"{len(jax.local_devices())} x {first.device_kind}"}
told["memory of each"] = f"{memory / 2**30:.1f} GiB usable" if memory else "not told"
told["runtime"] = " ".join(get_backend().platform_version.split())
told["jax"] = ", ".join(f"{each.name} {each.version}" for each in importlib.metadata.distributions()
                        if each.name.lower().startswith(("jax", "libtpu", "flax")))
print(json.dumps(told))
"""
TORCH_FACTS = (
    "import torch, diffusers; print(f'torch {torch.__version__}, diffusers {diffusers.__version__}')"
)
DRIVER = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
FACTS_SECONDS = 300


def main() -> None:
    options = options_given()
    environ = environment_for(options.on)
    conditions = found_conditions(options, environ)
    with tempfile.TemporaryDirectory() as own:
        room = options.room or own
        Path(room).mkdir(parents=True, exist_ok=True)
        outcomes: list[Outcome] = []
        for part in parts_for(options.on, options.torch_python, room):
            print(f"{part.title}: {part.shown}", flush=True)
            outcomes.append(run(part, environ))
            print(f"  {outcomes[-1].verdict}, {outcomes[-1].seconds:.0f} s", flush=True)
            options.page.write_text(page(conditions, outcomes), encoding="utf-8")
    print(f"the results are in {options.page}")
    if not all(each.ran for each in outcomes):
        raise SystemExit(1)


def options_given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--on", choices=DEVICES, required=True)
    parser.add_argument("--page", type=Path, default=Path("accelerator.md"), help="the page of results")
    parser.add_argument(
        "--room", help="a folder that keeps the random checkpoints, 9 GB; by default none is kept"
    )
    parser.add_argument("--torch-python", help="the Python with torch for this device; by default this one")
    return parser.parse_args()


def environment_for(device: str) -> dict[str, str]:
    """Return the environment of the parts: only this device, and only one GPU, because torch uses one."""
    own = {"JAX_PLATFORMS": PLATFORMS[device], "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    own |= {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_OFFLINE": "1"}
    if device == "gpu":
        own["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    return {**os.environ, **own}


def found_conditions(options: argparse.Namespace, environ: dict[str, str]) -> dict[str, str]:
    """Return what the figures depend on; ends the process with one sentence where the device is missing."""
    done = subprocess.run(
        [sys.executable, "-c", FACTS],
        env=environ,
        check=False,
        capture_output=True,
        text=True,
        timeout=FACTS_SECONDS,
    )
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing was said"]
        print(f"JAX finds no {options.on.upper()}: {told[-1]}", file=sys.stderr)
        print("Name another device with ON=gpu, ON=tpu or ON=cpu, the rehearsal.", file=sys.stderr)
        raise SystemExit(2)
    facts: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "on": f"{options.on}, the rehearsal: no figure of an accelerator"
        if options.on == "cpu"
        else options.on,
        **facts,
        "driver": said_by(DRIVER) if options.on == "gpu" else "none",
        "torch": said_by((options.torch_python or sys.executable, "-c", TORCH_FACTS)),
        "host": f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start",
        "code": said_by(("git", "-C", str(ROOT), "describe", "--always", "--dirty")),
    }


def said_by(command: tuple[str, ...]) -> str:
    """Return the output of a command on one line; "not told" where it fails."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=FACTS_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return "not told"
    return "; ".join(done.stdout.splitlines()) or "not told"


def run(part: Part, environ: dict[str, str]) -> Outcome:
    """Run a part and its processes, which all end with it."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            part.command,
            env=environ,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None
        try:
            status = process.wait(part.most_seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end_session(process)
        output.seek(0)
        return part.outcome(status, time.monotonic() - begun, output.read())


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    main()
