"""The services that commands and buttons call."""
