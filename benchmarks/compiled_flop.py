"""The operations of a program's products as the networks have them, before a compiler pads or divides any.

Counted from JAX's program, in which each attention is two products: 2 for each multiplication with its
addition, of matrix products and convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from sdjax_engine.compiling.compiler import ProgramSpec
from sdjax_engine.memory.devices import mesh_over


def network_flop(spec: ProgramSpec) -> float:
    """Return the operations of one device's share of a program; loops must have known trip counts."""
    alone = spec.alone_on(mesh_over([spec.mesh.devices.flat[0]]))
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), alone.arguments)
    return flop_of(jax.make_jaxpr(spec.function)(*shapes).jaxpr)


def flop_of(program: Jaxpr) -> float:
    """Return the operations of a program; those of a loop count once for each iteration."""
    total = 0.0
    for equation in program.eqns:
        match equation.primitive.name:
            case "dot_general":
                total += product_flop(equation)
            case "conv_general_dilated":
                total += convolution_flop(equation)
            case "cond":  # one branch runs: which one may depend on the platform
                total += max(map(flop_of, programs_within(equation)))
            case _:
                turns = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
                total += turns * sum(map(flop_of, programs_within(equation)))
    return total


def programs_within(equation: JaxprEqn) -> Iterator[Jaxpr]:
    """Yield the programs that an equation calls."""
    for value in equation.params.values():
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, ClosedJaxpr):
                yield each.jaxpr
            elif isinstance(each, Jaxpr):
                yield each


def product_flop(equation: JaxprEqn) -> float:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left: Any = equation.invars[0].aval
    result: Any = equation.outvars[0].aval
    return 2.0 * math.prod(result.shape) * math.prod(left.shape[axis] for axis in contracted)


def convolution_flop(equation: JaxprEqn) -> float:
    """Return the operations of a convolution: each result's, times the kernel's size for one output.

    Zeros between inputs, as an upsampling inserts them, are not counted.
    """
    kernel: Any = equation.invars[1].aval
    result: Any = equation.outvars[0].aval
    outputs = kernel.shape[equation.params["dimension_numbers"].rhs_spec[0]]
    apart = math.prod(equation.params["lhs_dilation"])
    return 2.0 * math.prod(result.shape) * math.prod(kernel.shape) / outputs / apart
