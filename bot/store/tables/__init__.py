"""The tables, on one metadata."""
