"""The connection to Discord: shards, the registration of commands, the command tree."""
