"""Checkpoints from their files: which files, which tensor is which parameter, and the reading itself."""

from sdjax_engine.families.family import Parameters
from sdjax_engine.weights.checkpoint import Checkpoint, Component
from sdjax_engine.weights.describe import Described, describe
from sdjax_engine.weights.load import load_checkpoint

__all__ = ["Checkpoint", "Component", "Described", "Parameters", "describe", "load_checkpoint"]
