"""The command line: `sdjax-bot` and its commands."""
