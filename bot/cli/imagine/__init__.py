"""`sdjax-bot imagine`: one checkpoint, one recipe, one file; no Discord, no queue."""

from bot.cli.imagine.options import Options
from bot.cli.imagine.to_file import Painted, imagine
from bot.provenance.opening import open_signing
from bot.provenance.start_manifests import given_files

__all__ = ["Options", "Painted", "given_files", "imagine", "open_signing"]
