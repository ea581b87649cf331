"""What `benchmarks/compiled.py` reads from a compiled program's text."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from compiled_hlo import Profile, Program, attention_flop, bytes_of, dimensions, read

CONVOLUTION = (
    "  %convolution.7 = bf16[64,16,9,64]{3,1,2,0:T(8,128)(2,1)S(1)} convolution(%fusion.11, %fusion.13), "
    "window={size=3x3 pad=1_1x0_0}, dim_labels=0b1f_01io->0b1f"
)
TPU = """
%condition (parameter.1: (s32[], f32[8])) -> pred[] {
  %constant.1 = s32[]{:T(128)} constant(8)
  %parameter.1 = (s32[]{:T(128)}, f32[8]{0}) parameter(0)
  %counter.1 = s32[]{:T(128)} get-tuple-element(%parameter.1), index=0
  ROOT %lt.1 = pred[]{:T(512)} compare(%counter.1, %constant.1), direction=LT
}

%body (parameter.2: (s32[], f32[8])) -> (s32[], f32[8]) {
  %parameter.2 = (s32[]{:T(128)}, f32[8]{0}) parameter(0)
  %row.1 = f32[8]{0} get-tuple-element(%parameter.2), index=1
  %near.1 = f32[8]{0:T(256)S(1)} copy(%row.1)
  ROOT %tuple.1 = (s32[], f32[8]{0}) tuple(%row.1, %near.1)
}

ENTRY %main (parameter.3: (s32[], f32[8])) -> (s32[], f32[8]) {
  %parameter.3 = (s32[]{:T(128)}, f32[8]{0}) parameter(0)
  ROOT %while.1 = (s32[]{:T(128)}, f32[8]{0}) while(%parameter.3), condition=%condition, body=%body
}
"""


def profile_of(function: object, *arguments: jax.Array) -> Profile:
    compiled = jax.jit(function).lower(*arguments).compile()  # type: ignore[arg-type]
    return Program(compiled.as_text()).profile(flops=1e12, bandwidth=1e9)


def test_an_instruction_is_read_with_layouts_that_have_parentheses() -> None:
    instruction = read(CONVOLUTION)
    assert instruction is not None
    assert (instruction.opcode, instruction.operands) == ("convolution", ("fusion.11", "fusion.13"))
    assert dimensions(instruction.result) == (64, 16, 9, 64)


def test_only_what_lies_in_the_device_s_main_memory_is_traffic() -> None:
    assert bytes_of("(f32[2,3]{1,0}, pred[4]{0}, bf16[5]{0:T(256)S(1)})") == 2 * 3 * 4 + 4


def test_a_loop_whose_condition_compares_with_a_constant_has_that_many_turns() -> None:
    profile = Program(TPU).profile(flops=1e12, bandwidth=1e9)
    assert (profile.unbounded_loops, profile.kernels, profile.others) == (0, 8, 8 * 8 * 4)
    computed = TPU.replace(
        "%constant.1 = s32[]{:T(128)} constant(8)", "%constant.1 = s32[] copy(%parameter.1)"
    )
    assert Program(computed).profile(flops=1e12, bandwidth=1e9).unbounded_loops == 1


@pytest.mark.parametrize("counted", [True, False])
def test_loops_and_branches_of_a_real_program_are_found(*, counted: bool) -> None:
    def walk(x: jax.Array, turns: jax.Array) -> jax.Array:
        end = 7 if counted else turns
        x = jax.lax.fori_loop(0, end, lambda _, each: jnp.sin(each @ each), x)
        return x if counted else jax.lax.cond(turns > 3, jnp.sin, jnp.cos, x)

    profile = profile_of(walk, jnp.ones((64, 64)), jnp.int32(5))
    assert (profile.unbounded_loops, profile.conditionals) == ((0, 0) if counted else (1, 1))


def test_the_operations_of_products_are_counted_and_the_bound_follows() -> None:
    profile = profile_of(lambda x, y: x @ y, jnp.ones((64, 128)), jnp.ones((128, 32)))
    assert profile.flop == 2 * 64 * 128 * 32
    assert profile.seconds >= profile.flop / 1e12


@pytest.mark.parametrize(
    ("how", "inputs", "kernel", "result", "operations"),
    [
        (
            "window={size=2x8 stride=1x7 lhs_dilate=2x8}, dim_labels=0b1f_0o1i->01bf",
            *("2,1024,8,40", "2,4096,8,40", "2,8,1024,4096", 2 * 8 * 1024 * 4096 * 40),
        ),
        (
            "window={size=2x128 pad=1_1x127_127 rhs_reversal=1x1}, dim_labels=fb01_01oi->01fb",
            *("640,320,1,1", "2,128,128,640", "2,128,128,320", 2 * 128 * 128 * 320 * 640),
        ),
        (
            "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
            *("2,64,64,320", "3,3,320,640", "2,64,64,640", 2 * 64 * 64 * 640 * 320 * 9),
        ),
    ],
    ids=["zeros between inputs", "zeros around one input", "a network's convolution"],
)
def test_a_convolution_s_operations_are_those_of_the_inputs_that_its_window_meets(
    how: str, inputs: str, kernel: str, result: str, operations: int
) -> None:
    text = f"""
ENTRY %main (x: bf16[{inputs}], k: bf16[{kernel}]) -> bf16[{result}] {{
  %x = bf16[{inputs}]{{3,2,1,0}} parameter(0)
  %k = bf16[{kernel}]{{3,2,1,0}} parameter(1)
  ROOT %convolution.1 = bf16[{result}]{{3,2,1,0}} convolution(%x, %k), """
    text += f"{how}\n}}\n"
    assert Program(text).profile(flops=1e12, bandwidth=1e9).flop == 2 * operations


def test_an_attention_s_heads_count_in_whole_lanes_on_tpus_unless_they_lie_side_by_side() -> None:
    assert attention_flop([(2, 8, 64, 40), (2, 8, 96, 40)], heads_first=True) == 4 * 2 * 8 * 64 * 128 * 96
    assert attention_flop([(2,), (2, 64, 320), (2, 77, 320)], heads_first=True) == 4 * 2 * 64 * 320 * 77
    assert attention_flop([(2, 64, 8, 40), (2, 77, 8, 40)], heads_first=False) == 4 * 2 * 64 * 8 * 40 * 77
