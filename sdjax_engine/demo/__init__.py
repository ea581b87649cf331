"""The bundled demo checkpoint: its scenes, the judge of its pictures, and its training."""
