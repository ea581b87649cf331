"""Moderation: standings, rules, known pictures, reviews, reports, appeals."""
