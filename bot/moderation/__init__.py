"""What may be painted, and by whom: decisions as pure functions."""
