"""Writes the signatures of the removed Flax classes, from the source of `diffusers` 0.39.0.

    pip download --no-deps diffusers==0.39.0 && unzip diffusers-0.39.0-*.whl -d FOLDER
    cd tests/integration/engine && python removed_signatures.py FOLDER > removed_signatures.json

For each class and method: the parameters in order, with their defaults. Of `from_pretrained`, which reads
arguments from a dictionary, these are listed as well.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

PIPELINE, SCHEDULER = "pipelines/{}/pipeline_flax_{}.py", "schedulers/scheduling_{}_flax.py"
SD = "stable_diffusion"
FILES = {
    PIPELINE.format(SD, SD): "FlaxStableDiffusionPipeline",
    PIPELINE.format(SD, f"{SD}_img2img"): "FlaxStableDiffusionImg2ImgPipeline",
    PIPELINE.format(SD, f"{SD}_inpaint"): "FlaxStableDiffusionInpaintPipeline",
    PIPELINE.format(f"{SD}_xl", f"{SD}_xl"): "FlaxStableDiffusionXLPipeline",
    PIPELINE.format("controlnet", "controlnet"): "FlaxStableDiffusionControlNetPipeline",
    "models/controlnets/controlnet_flax.py": "FlaxControlNetModel",
    SCHEDULER.format("ddim"): "FlaxDDIMScheduler",
    SCHEDULER.format("pndm"): "FlaxPNDMScheduler",
    SCHEDULER.format("dpmsolver_multistep"): "FlaxDPMSolverMultistepScheduler",
    SCHEDULER.format("euler_discrete"): "FlaxEulerDiscreteScheduler",
}
BASES = {
    "Pipeline": ("pipelines/pipeline_flax_utils.py", "FlaxDiffusionPipeline"),
    "Model": ("models/modeling_flax_utils.py", "FlaxModelMixin"),
    "Scheduler": ("schedulers/scheduling_utils_flax.py", "FlaxSchedulerMixin"),
}
PUBLIC = {"__init__", "__call__", "_generate"}


def class_in(file: Path, name: str) -> ast.ClassDef:
    found = (each for each in ast.parse(file.read_text()).body if isinstance(each, ast.ClassDef))
    return next(each for each in found if each.name == name)


def parameters(method: ast.FunctionDef) -> str:
    arguments = method.args
    defaults = [*[None] * (len(arguments.args) - len(arguments.defaults)), *arguments.defaults]
    named = zip([each.arg for each in arguments.args], defaults, strict=True)
    popped = {
        call.args[0].value: ast.unparse(call.args[1])
        for call in ast.walk(method)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "kwargs.pop" and len(call.args) == 2
    }
    own = {name: default and ast.unparse(default) for name, default in named if name not in ("self", "cls")}
    every = own | (popped if method.name == "from_pretrained" else {})
    return ", ".join(name if default is None else f"{name}={default}" for name, default in every.items())


def methods(file: Path, name: str) -> dict[str, str]:
    return {
        each.name: parameters(each)
        for each in class_in(file, name).body
        if isinstance(each, ast.FunctionDef) and (each.name in PUBLIC or not each.name.startswith("_"))
    }


def main() -> None:
    root = Path(sys.argv[1]) / "diffusers"
    signatures = {}
    for file, name in FILES.items():
        base_file, base = next(each for kind, each in BASES.items() if name.endswith(kind))
        signatures[name] = methods(root / base_file, base) | methods(root / file, name)
        if name.endswith("Model"):  # a module of flax.linen is called by `apply`
            signatures[name]["apply"] = f"variables, {signatures[name].pop('__call__')}"
    print(json.dumps(signatures, indent=1))


if __name__ == "__main__":
    main()
