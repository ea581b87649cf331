"""`sdjax-bot imagine`: one checkpoint, one recipe, one file; no Discord, no queue."""

from bot.oneshot.options import LoraOption, Options
from bot.oneshot.to_file import Painted, imagine

__all__ = ["LoraOption", "Options", "Painted", "imagine"]
