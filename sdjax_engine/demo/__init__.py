"""The bundled demo checkpoint: its scenes, the checker of its pictures, and its training."""
