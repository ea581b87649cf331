"""What the program of watermarks reads and writes, for both of its ends: lengths and marks, no JAX."""

from __future__ import annotations

PUT, FIND = b"P", b"F"
"""The first byte of a task: put bits into a picture, or find the bits in one."""
PIXELS, SEEN, BITS = 256, 224, 100
"""The sides of the pictures in which bits are put and found, and how many bits."""
PUT_BYTES, FIND_BYTES = BITS + PIXELS * PIXELS * 3, SEEN * SEEN * 3
RESIDUAL_BYTES, FOUND_BYTES = PIXELS * PIXELS * 3 * 4, BITS * 4
"""A task to put is its bits, a byte each, and an RGB picture; the answer is its residual in float32.

A task to find is an RGB picture; the answer is a number in float32 for each bit, over 0 for 1.
"""
READY, REFUSED = "ready", "refused"
"""The keys of the first line, which is JSON."""
