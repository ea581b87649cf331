"""Compiling programs, and keeping the compiled programs on disk."""
