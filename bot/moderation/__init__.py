"""Moderators' terms found in a text, also where people try to hide them: pure functions, no Discord."""

from bot.moderation.readings import Readings, read
from bot.moderation.terms import Terms, find, find_all, matches, matches_both

__all__ = ["Readings", "Terms", "find", "find_all", "matches", "matches_both", "read"]
