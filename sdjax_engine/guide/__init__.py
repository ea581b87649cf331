"""The surface of the guide "Stable Diffusion in JAX / Flax", whose classes upstream has removed.

Pipelines without parameters, parameters without pipelines, in the names and with the arguments that
`diffusers` 0.39.0 had last; networks, samplers and the reading of checkpoints are this package's own. The
same weights, key, steps and scheduler give the picture that the removed class gave: see `networks.py` and
`schedulers.py` for where that is not what the reference's torch pipelines paint.
"""
