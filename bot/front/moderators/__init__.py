"""The moderators' commands, one to a module: what they see and decide, and members' reports."""
