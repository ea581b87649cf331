"""All rows of a queue as values, for backups."""
