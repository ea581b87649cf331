"""What the sections of the configuration share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Snowflake = Annotated[int, Field(ge=1, lt=2**63)]
"""An id of Discord's."""


class Section(BaseModel):
    """Base of the sections: frozen, without unknown keys, with finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def repeated(values: Iterable[Any]) -> list[Any]:
    """Return each value that occurs more than once, in sorted order."""
    return sorted(value for value, count in Counter(values).items() if count > 1)
