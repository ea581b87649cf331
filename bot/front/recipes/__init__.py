"""From typed options to a recipe; no Discord here."""
