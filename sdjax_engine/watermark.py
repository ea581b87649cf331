"""The program of watermarks: `python -m sdjax_engine.watermark SOURCE`, with TrustMark's networks.

It answers with a line of JSON once it is ready, or with the reason why it is not, and ends. Then it reads
tasks from its standard input, of fixed lengths, and answers each until the input ends. It is a process of its
own because a front loads no JAX, and because the devices of this machine may belong to a worker.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import Any, BinaryIO

import jax
import numpy as np

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.watermark_tasks import BITS, FIND_BYTES, PIXELS, PUT, PUT_BYTES, READY, REFUSED, SEEN
from sdjax_engine.weights.trustmark import load_trustmark


def main() -> None:
    """Load the weights, say so, and answer tasks."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
    try:
        program = Program(sys.argv[1])
    except UnreadableCheckpoint as error:
        say(answers, {REFUSED: str(error)})
        return
    say(answers, {READY: True})
    while task := sys.stdin.buffer.read(1):
        found = sys.stdin.buffer.read(PUT_BYTES if task == PUT else FIND_BYTES)
        answers.write(program.residual(found) if task == PUT else program.bits(found))
        answers.flush()


def say(answers: BinaryIO, words: dict[str, object]) -> None:
    """Write a line of JSON."""
    answers.write(json.dumps(words).encode() + b"\n")
    answers.flush()


class Program:
    """The compiled networks of the weights called `source`; raises UnreadableCheckpoint."""

    def __init__(self, source: str) -> None:
        loaded = load_trustmark(source)
        picture, marked = (np.zeros((1, side, side, 3), np.uint8) for side in (PIXELS, SEEN))
        bits = np.zeros((1, BITS), np.uint8)
        self._parameters = loaded.encoder.parameters, loaded.decoder.parameters
        self._put = jax.jit(partial(put, loaded.encoder)).lower(self._parameters[0], picture, bits).compile()
        self._find = jax.jit(partial(find, loaded.decoder)).lower(self._parameters[1], marked).compile()

    def residual(self, task: bytes) -> bytes:
        """Answer a task to put."""
        bits, picture = np.frombuffer(task, np.uint8, BITS), np.frombuffer(task, np.uint8, offset=BITS)
        made = self._put(self._parameters[0], picture.reshape(1, PIXELS, PIXELS, 3), bits[None])
        return np.asarray(made, "<f4").tobytes()

    def bits(self, task: bytes) -> bytes:
        """Answer a task to find."""
        picture = np.frombuffer(task, np.uint8).reshape(1, SEEN, SEEN, 3)
        return np.asarray(self._find(self._parameters[1], picture), "<f4").tobytes()


def put(encoder: Any, parameters: Any, picture: Any, bits: Any) -> Any:
    """Return the residual of a picture of bytes for bits."""
    return encoder.module(parameters)(as_numbers(picture), bits.astype(np.float32))


def find(decoder: Any, parameters: Any, picture: Any) -> Any:
    """Return the numbers of the bits in a picture of bytes."""
    return decoder.module(parameters)(as_numbers(picture))


def as_numbers(picture: Any) -> Any:
    """Return a picture of bytes in [-1, 1]."""
    return picture.astype(np.float32) / np.float32(255) * 2 - 1


if __name__ == "__main__":
    main()
