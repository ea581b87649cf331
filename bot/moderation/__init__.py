"""What may be painted, by whom and how often: pure decisions, rates, and moderators' terms."""

from bot.moderation.always import BothOf, hard_rule
from bot.moderation.readings import Readings, read
from bot.moderation.terms import Terms, find_all, matches

__all__ = ["BothOf", "Readings", "Terms", "find_all", "hard_rule", "matches", "read"]
