"""What may be painted, and by whom: decisions as pure functions, and moderators' terms found in a text."""

from bot.moderation.always import breaks_hard_rule
from bot.moderation.readings import Readings, read
from bot.moderation.terms import Terms, find, find_all, matches, matches_both

__all__ = ["Readings", "Terms", "breaks_hard_rule", "find", "find_all", "matches", "matches_both", "read"]
