"""The devices and the checkpoints, looked at in a process of their own.

A driver may hang or end its process. So the doctor starts `python -m bot.doctor.painting LOOK`, writes the
sections `models` and `engine` to it, reads one JSON object a line, and kills it at its time limit. If the
doctor dies, the process ends too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from bot.app.named_files import mistakes_in_checkpoint, mistakes_in_parts
from bot.config import Config, ModelConfig
from bot.config.environment import without_secrets
from bot.doctor.findings import Finding, well, wrong
from sdjax_engine.errors import EngineError
from sdjax_engine.request import Int8

if TYPE_CHECKING:
    from sdjax_engine.config import ModelSpec

DEVICES, CHECKPOINTS = "devices", "checkpoints"
LAST_LINES = 400  # characters of a failed process's last line
KILL_SECONDS = 5.0  # a process in a driver that hangs may not die of SIGKILL either


async def in_process(config: Config, look: str) -> AsyncIterator[Finding]:
    """Yield the findings of the process; kill it if it still runs when this generator ends."""
    # JAX must not take the memory of a GPU that a running worker uses.
    environment = {**without_secrets(os.environ), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot.fleet.child", str(os.getpid())),
        *(sys.executable, "-m", "bot.doctor.painting", look),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    needed = config.model_dump_json(include={"models", "engine"}, exclude_unset=True)
    process.stdin.write(needed.encode())
    process.stdin.close()
    errors = asyncio.ensure_future(process.stderr.read())
    try:
        async for line in process.stdout:
            yield Finding(**json.loads(line))
        if status := await process.wait():
            said = (await errors).decode(errors="replace").strip().splitlines()
            words = said[-1][-LAST_LINES:] if said else "it said nothing"
            yield wrong(f"the check ended with status {status}: {words}")
    finally:
        errors.cancel()
        if process.returncode is None:
            process.kill()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), KILL_SECONDS)


def _devices(config: Config) -> Iterator[Finding]:
    from sdjax_engine.errors import in_bytes  # noqa: PLC0415
    from sdjax_engine.memory import devices  # noqa: PLC0415 - only this process may load JAX
    from sdjax_engine.memory.residency import usable_memory  # noqa: PLC0415

    devices.setup_cpu(config.engine.cpu_devices)
    mesh = devices.open_mesh()
    first, *others = devices.report(mesh)
    memory = usable_memory(mesh, int(config.engine.device_memory_gib * 2**30))
    driver = str(mesh.devices.flat[0].client.platform_version).partition("\n")[0]
    yield well(f"{first}; {in_bytes(memory)} each" if memory else first)
    yield well(f"driver: {driver or 'it does not say'}.")
    for line in others:
        # Using the CPU is right if the machine has no accelerator, or JAX was told to use none.
        installed = any(name in line for name in devices.ACCELERATOR_PACKAGES)
        yield wrong(f"{line} Look at its driver.") if installed else well(line)


def _checkpoints(config: Config) -> Iterator[Finding]:
    from sdjax_engine.config import Dtype  # noqa: PLC0415
    from sdjax_engine.memory import devices  # noqa: PLC0415
    from sdjax_engine.memory.residency import host_memory_for_models, most_memory  # noqa: PLC0415

    devices.setup_cpu(config.engine.cpu_devices)
    mesh = devices.open_mesh()
    dtype = Dtype(config.engine.dtype).settled(on_cpu=devices.is_cpu(mesh)).value
    most = most_memory(mesh) or devices.host_memory()  # a CPU's devices report none
    memory = int(config.engine.device_memory_gib * 2**30) or most
    host = host_memory_for_models(mesh, memory)
    for number, model in enumerate(config.models, 1):
        mistakes = list(mistakes_in_checkpoint(config, number))
        try:
            if not mistakes:
                yield _opened(model, config, dtype, (memory, most, host))
        except EngineError as error:
            mistakes.append(f"models[{number}]: {error}")
        for mistake in (*mistakes, *mistakes_in_parts(config, number)):
            yield wrong(mistake)


def _opened(model: ModelConfig, config: Config, dtype: str, room: tuple[int, int, int]) -> Finding:
    from bot.worker.opening import spec_of, with_defaults  # noqa: PLC0415
    from sdjax_engine.config import Dtype  # noqa: PLC0415
    from sdjax_engine.errors import in_bytes  # noqa: PLC0415
    from sdjax_engine.startup.model_check import check_model  # noqa: PLC0415

    memory, most, host = room
    spec = spec_of(with_defaults(model, lambda _: None))
    checked = check_model(spec, dtype=dtype, previews=config.engine.preview_seconds > 0)
    if checked is None:
        return well(f"{model.name} is on the hub; a start fetches what lacks.")
    size, needed = f"{in_bytes(checked.size)} in {dtype}{' and INT8' if model.int8 else ''}", checked.at_once
    if needed > memory:
        remedies = ["offer a smaller checkpoint"]
        halved = dtype != Dtype.BFLOAT16 and needed // 2 <= memory
        remedies += ["use bfloat16"] if halved else []
        remedies += _int8_for(spec, dtype, memory)
        remedies += ["raise engine.device_memory_gib"] if needed <= most else []
        part = f", {in_bytes(needed)} of it at once" if needed < checked.size else ""
        return wrong(
            f"{model.name} takes {size}{part}, and a device has {in_bytes(memory)}: "
            f"{', or '.join(remedies)}.",
        )
    if checked.size > max(memory, host):
        return wrong(
            f"{model.name} takes {size}, a device has {in_bytes(memory)}, and the host's memory "
            f"{in_bytes(host)} for what takes turns there: offer a smaller checkpoint, or use more memory."
        )
    fits = "which fits" if checked.size <= memory else "of which parts take turns on a device, more slowly"
    return well(f"{model.name} opens: {checked.pipeline}, {size}, {fits}.")


def _int8_for(spec: ModelSpec, dtype: str, memory: int) -> list[str]:
    """Return the advice to round weights to INT8, if the model then fits a device of so many bytes."""
    from sdjax_engine.startup.model_check import check_model  # noqa: PLC0415

    rounded = dataclasses.replace(spec, offer=dataclasses.replace(spec.offer, int8=tuple(Int8)))
    try:
        checked = check_model(rounded, dtype=dtype, previews=False)
    except EngineError:  # the family has no weights in INT8
        return []
    parts = ", ".join(f'"{part}"' for part in Int8)
    return [f"set int8 = [{parts}]"] if checked is not None and checked.at_once <= memory else []


LOOKS = {DEVICES: _devices, CHECKPOINTS: _checkpoints}


def main(look: str) -> None:
    """Print the findings of one look at the configuration from standard input, one JSON object a line."""
    config = Config.parse(json.load(sys.stdin))
    try:
        for finding in LOOKS[look](config):
            print(json.dumps(dataclasses.asdict(finding)), flush=True)  # noqa: T201 - read by `in_process`
    except EngineError as error:
        print(json.dumps(dataclasses.asdict(wrong(str(error)))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
