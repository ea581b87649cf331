"""Files and messages that people send: fetched, decoded, read."""
