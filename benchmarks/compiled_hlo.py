"""What a compiled program does, read from its HLO text: kernels, traffic, products, loops and branches.

Traffic counts every operand and result of every kernel once, except arrays in a TPU's on-chip memory. It is
too small where a kernel reads an operand twice, too large where a cache answers or only a part is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

ARRAY = re.compile(r"\b(pred|bf16|[suf]\d+\w*|c\d+)\[([\d,]*)\](\{[^}]*\})?")
HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%([\w.\-]+) = ")
CALLED = re.compile(r"(?:calls|to_apply|body|condition|called_computations)=\{?%([\w.\-]+)")
BRANCHES = re.compile(r"(?:branch_computations=\{([^}]*)\}|(?:true|false)_computation=(%[\w.\-]+))")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
CALL_TARGET = re.compile(r'custom_call_target="([^"]+)"')
LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->\w+")
DILATED = re.compile(r"lhs_dilate=([\dx]+)")
CONTRACTED = re.compile(r"lhs_contracting_dim\w*(?:=\{|\":\[)([\d,\"]*)")
ON_CHIP = re.compile(r"S\([1-9]\)")
FREE = frozenset(
    (
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id"),
        *("replica-id", "opt-barrier", "async-done", "async-update", "copy-done", "slice-done", "iota"),
        *("domain", "add-dependency"),
    )
)
COPIES = frozenset({"copy-start", "slice-start"})
BITS = {"pred": 8, "bf16": 16}
LANES = 128


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction: its result's type as text, its opcode, the names of its operands, and the rest."""

    name: str
    result: str
    opcode: str
    operands: tuple[str, ...]
    rest: str
    constant: int | None = None


@dataclass(kw_only=True)
class Kind:
    """The kernels of one kind: how many, the bytes that they move, the operations of their products."""

    kernels: int = 0
    traffic: float = 0.0
    flop: float = 0.0


@dataclass(kw_only=True)
class Profile:
    """What a program does in one call; `seconds` is a bound from `flops` and `bandwidth` of a device."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    attention: dict[str, int] = field(default_factory=dict)
    conditionals: int = 0
    unbounded_loops: int = 0
    seconds: float = 0.0

    @property
    def kernels(self) -> int:
        """How many kernels one call starts."""
        return sum(kind.kernels for kind in self.kinds.values())

    @property
    def flop(self) -> float:
        """The operations of all products, 2 for each multiplication with its addition."""
        return sum(kind.flop for kind in self.kinds.values())

    @property
    def products(self) -> float:
        """The bytes that products, convolutions and attention move."""
        return sum(kind.traffic for kind in self.kinds.values() if kind.flop)

    @property
    def others(self) -> float:
        """The bytes that all other kernels move."""
        return sum(kind.traffic for kind in self.kinds.values() if not kind.flop)


class Program:
    """The computations of a compiled program."""

    def __init__(self, text: str) -> None:
        self.computations: dict[str, list[Instruction]] = {}
        self.entry = ""
        current: list[Instruction] = []
        for line in text.splitlines():
            if header := HEADER.match(line):
                current = self.computations.setdefault(header[2], [])
                if header[1]:
                    self.entry = header[2]
            elif instruction := read(line):
                current.append(instruction)

    def profile(self, *, flops: float, bandwidth: float) -> Profile:
        """Return what one call does on a device of so many operations and bytes a second."""
        profile = Profile()
        self._walk(self.entry, 1, profile, flops, bandwidth)
        return profile

    def _walk(self, name: str, times: int, profile: Profile, flops: float, bandwidth: float) -> None:
        instructions = self.computations.get(name, [])
        types = {each.name: each.result for each in instructions}
        for each in instructions:
            match each.opcode:
                case "while":
                    trips = self._trips(each)
                    profile.unbounded_loops += trips is None
                    for body in re.findall(r"body=%([\w.\-]+)", each.rest):
                        self._walk(body, times * (trips or 1), profile, flops, bandwidth)
                case "conditional":
                    profile.conditionals += 1
                    for branch in branches_of(each):
                        self._walk(branch, times, profile, flops, bandwidth)
                case "call" | "async-start":
                    for called in CALLED.findall(each.rest):
                        self._walk(called, times, profile, flops, bandwidth)
                case opcode if opcode not in FREE:
                    self._count(each, types, times, profile, flops, bandwidth)

    def _trips(self, loop: Instruction) -> int | None:
        """Return how often a loop turns; None where its end is computed by the device.

        Libtpu's text does not say: there the condition compares a counter, from 0 on, with a constant.
        """
        if known := TRIPS.search(loop.rest):
            return int(known[1])
        for condition in re.findall(r"condition=%([\w.\-]+)", loop.rest):
            instructions = self.computations.get(condition, [])
            limits = {each.name: each.constant for each in instructions if each.opcode == "constant"}
            for each in instructions:
                if each.opcode == "compare" and "direction=LT" in each.rest:
                    return next((limits[name] for name in each.operands if name in limits), None)
        return None

    def _count(  # noqa: PLR0917
        self,
        each: Instruction,
        types: dict[str, str],
        times: int,
        profile: Profile,
        flops: float,
        bandwidth: float,
    ) -> None:
        traffic = traffic_of(each, types)
        name, flop = self.kind_of(each, types)
        kind = profile.kinds.setdefault(name, Kind())
        kind.kernels += times
        kind.traffic += times * traffic
        kind.flop += times * flop
        profile.seconds += times * max(flop / flops, traffic / bandwidth)
        if name.startswith("attention"):
            kernel = name.removeprefix("attention ")
            profile.attention[kernel] = profile.attention.get(kernel, 0) + times

    def kind_of(self, each: Instruction, types: dict[str, str]) -> tuple[str, float]:
        """Return the kind of a kernel, and the operations of its products."""
        target = CALL_TARGET.search(each.rest)
        if target is not None:
            shapes = [dimensions(types.get(operand, "")) for operand in each.operands]
            if "fmha" in target[1]:
                return "attention cudnn", attention_flop(shapes, heads_first=False)
            if target[1] == "tpu_custom_call":
                return "attention flash", attention_flop(shapes, heads_first=True)
            if "conv" in target[1].lower():
                return "convolution", convolution_flop(each, types)
            if "gemm" in target[1] or "matmul" in target[1]:
                return "product", dot_flop(each, types)
            return f"call of {target[1]}", 0.0
        flop = self._flop_within(each, types)
        if each.opcode in {"fusion", "convolution", "dot"} and flop:
            return "product", flop
        if each.opcode == "fusion":
            found = re.search(r"kind=k(\w+)", each.rest)
            return f"{found[1].lower() if found else ''} fusion", 0.0
        return each.opcode.removesuffix("-start"), 0.0

    def _flop_within(self, each: Instruction, types: dict[str, str]) -> float:
        """Return the operations of the products in a kernel, nested fusions included."""
        if each.opcode == "convolution":
            return convolution_flop(each, types)
        if each.opcode == "dot":
            return dot_flop(each, types)
        if each.opcode != "fusion":
            return 0.0
        total = 0.0
        for called in CALLED.findall(each.rest):
            inner = self.computations.get(called, [])
            inner_types = {one.name: one.result for one in inner}
            total += sum(self._flop_within(one, inner_types) for one in inner)
        return total


def read(line: str) -> Instruction | None:
    """Read a line of HLO; None for a line that is no instruction."""
    begun = INSTRUCTION.match(line)
    if begun is None:
        return None
    rest = line[begun.end() :]
    end = matching(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    result, rest = rest[:end], rest[end:].lstrip()
    opened = rest.find("(")
    if opened < 0:
        return None
    closed = matching(rest, opened)
    operands = tuple(re.findall(r"%([\w.\-]+)", rest[opened:closed]))
    number = rest[opened + 1 : closed]
    return Instruction(
        name=begun[1],
        result=result,
        opcode=rest[:opened],
        operands=operands,
        rest=rest[closed + 1 :],
        constant=int(number) if number.isdigit() else None,
    )


def matching(text: str, opened: int) -> int:
    """Return the place of the parenthesis that closes the one at `opened`."""
    depth = 0
    for place in range(opened, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if not depth:
            return place
    return len(text)


def branches_of(each: Instruction) -> Iterator[str]:
    """Yield the computations of a conditional."""
    for several, single in BRANCHES.findall(each.rest):
        yield from re.findall(r"%([\w.\-]+)", several or single)


def bytes_of(type_text: str) -> float:
    """Return the bytes of a type's arrays in the device's main memory."""
    total = 0.0
    for dtype, sizes, layout in ARRAY.findall(type_text):
        if not ON_CHIP.search(layout):
            bits = BITS.get(dtype) or int(re.sub(r"\D.*", "", dtype[1:]))
            total += math.prod(int(size) for size in sizes.split(",") if size) * bits / 8
    return total


def traffic_of(each: Instruction, types: dict[str, str]) -> float:
    """Return the bytes that a kernel moves; of a TPU's copy to on-chip memory, those that arrive there."""
    arrays = [found[0] for found in ARRAY.finditer(each.result)]
    near = [array for array in arrays if ON_CHIP.search(array)]
    if each.opcode in COPIES and near:
        return sum(bytes_of(ON_CHIP.sub("", array)) for array in near)
    return bytes_of(each.result) + sum(bytes_of(types.get(operand, "")) for operand in each.operands)


def dimensions(type_text: str) -> tuple[int, ...]:
    """Return the dimensions of a type's first array."""
    found = ARRAY.search(type_text)
    return tuple(int(size) for size in found[2].split(",") if size) if found else ()


def attention_flop(shapes: list[tuple[int, ...]], *, heads_first: bool) -> float:
    """Return the operations of an attention's two products, from its operands' shapes.

    With heads first, on TPUs, a head counts in whole lanes, as the device's unit for products computes it. In
    operands of three dimensions heads lie side by side, and count as wide as they are.
    """
    several = [shape for shape in shapes if len(shape) in {3, 4}]
    if len(several) < 2:
        return 0.0
    queries, keys = several[0], several[1]
    if len(queries) == 4 and heads_first:
        whole = -(-queries[3] // LANES) * LANES
        return 4.0 * math.prod(queries[:3]) * whole * keys[2]
    return 4.0 * math.prod(queries) * keys[1]


def convolution_flop(each: Instruction, types: dict[str, str]) -> float:
    """Return the operations of a convolution: each result's, times the inputs that its window meets.

    Libtpu writes a product of several matrices as a convolution whose window is as large as their number.
    With zeros between the inputs, or around a single one, each window meets one input. Zeros at the edge of a
    picture are counted.
    """
    labels = LABELS.search(each.rest)
    inputs, kernel = (dimensions(types.get(operand, "")) for operand in each.operands[:2])
    if labels is None or (len(labels[1]), len(labels[2])) != (len(inputs), len(kernel)):
        return 0.0
    dilated = DILATED.search(each.rest)
    apart = [int(number) for number in dilated[1].split("x")] if dilated else [1] * len(kernel)
    met = kernel[labels[2].index("i")]
    for axis in filter(str.isdigit, labels[2]):
        window, length = kernel[labels[2].index(axis)], inputs[labels[1].index(axis)]
        met *= min(-(-window // apart[int(axis)]), length)
    return 2.0 * math.prod(dimensions(each.result)) * met


def dot_flop(each: Instruction, types: dict[str, str]) -> float:
    """Return the operations of a matrix product."""
    contracted, left = CONTRACTED.search(each.rest), dimensions(types.get(each.operands[0], ""))
    if contracted is None:
        return 0.0
    numbers = [int(number) for number in re.findall(r"\d+", contracted[1])]
    return 2.0 * math.prod(dimensions(each.result)) * math.prod(left[number] for number in numbers)
