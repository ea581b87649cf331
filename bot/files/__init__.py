"""Picture files: the place that keeps them, and their rows in the store, changed together."""

from bot.files.artifacts import Artifacts
from bot.files.files import Files, KeptFile

__all__ = ["Artifacts", "Files", "KeptFile"]
