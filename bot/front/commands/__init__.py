"""Everybody's commands, one to a module: a thin skin over functions that need no Discord."""
