"""Finished pictures: shown again, exported, removed."""
