"""Units of time, in seconds."""

HOUR_SECONDS = 3600.0
DAY_SECONDS = 86_400.0
