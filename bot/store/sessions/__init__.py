"""Group sessions: their rows, phases and boards."""
