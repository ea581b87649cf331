"""Checkpoints from their files: which files, which tensor is which parameter, and the reading itself."""

from sdjax_engine.weights.load import Checkpoint, Component, load_checkpoint

__all__ = ["Checkpoint", "Component", "load_checkpoint"]
