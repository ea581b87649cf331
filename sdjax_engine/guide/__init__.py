"""The pipelines of the guide "Stable Diffusion in JAX / Flax", which `diffusers` removed after 0.39.0.

Names and arguments are those of `diffusers` 0.39.0: a pipeline holds no parameters, each call is given them.
Networks, samplers and the reading of checkpoints are this package's own. The same weights, key, steps and
scheduler give the picture that the removed class gave. `networks.py` and `schedulers.py` say where that
picture differs from the picture of the reference's torch pipelines.
"""
