"""What moderators see and decide, as data and as forms."""
