"""Checkpoints from their files: which files, which tensor is which parameter, and the reading itself."""

from sdjax_engine.weights.checkpoint import Checkpoint, Component, TextEncoder
from sdjax_engine.weights.describe import Described, describe
from sdjax_engine.weights.load import load_checkpoint
from sdjax_engine.weights.networks import Parameters

__all__ = ["Checkpoint", "Component", "Described", "Parameters", "TextEncoder", "describe", "load_checkpoint"]
