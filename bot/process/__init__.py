"""How a process of the bot lives: its threads, its end, its restarts, its private files."""
