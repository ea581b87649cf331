"""What may be painted, by whom and how often: pure decisions, rates, and moderators' terms."""

from bot.moderation.readings import Readings, read
from bot.moderation.terms import BothOf, Terms, find_all, hard_rule, matches

__all__ = ["BothOf", "Readings", "Terms", "find_all", "hard_rule", "matches", "read"]
