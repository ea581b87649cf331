"""The networks of a Stable Diffusion checkpoint; attributes have the reference's names."""
