"""Dictionaries whose entries are attributes too, as in the removed classes."""

from __future__ import annotations

from typing import Any


class Settings(dict[str, Any]):
    """A dictionary: `settings.sample_size` is `settings["sample_size"]`."""

    def __getattr__(self, name: str) -> Any:
        """Return the entry of this name; raises AttributeError."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no setting {name!r}") from None
