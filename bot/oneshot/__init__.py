"""`sdjax-bot imagine`: one checkpoint, one recipe, one file; no Discord, no queue."""

from bot.oneshot.painting import Painted, imagine
from bot.oneshot.wish import Wish, WishedLora

__all__ = ["Painted", "Wish", "WishedLora", "imagine"]
