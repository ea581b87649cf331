"""A tokenizer that is called as those of `transformers` are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdjax_engine.guide.networks import Settings
from sdjax_engine.prompts import Tokenizer

MAX_LENGTH = "max_length"


@dataclass(frozen=True, kw_only=True)
class CLIPTokenizer:
    """Token ids of texts; `tokenizer` is the engine's own."""

    tokenizer: Tokenizer

    @property
    def model_max_length(self) -> int:
        """The number of ids of a text, including start and end."""
        return self.tokenizer.length

    def ids(self, text: str) -> npt.NDArray[np.int32]:
        """Return the ids of a text, cut and padded to `model_max_length`."""
        return self.tokenizer.encode(text)

    def __call__(
        self,
        text: str | Sequence[str],
        *,
        padding: bool | str = False,
        truncation: bool | None = None,
        max_length: int | None = None,
        return_tensors: str | None = None,
    ) -> Settings:
        """Return `input_ids` and `attention_mask` of one text or several.

        They are lists, or arrays with `return_tensors` "np" or "jax", which needs texts of one length. With
        `padding` True texts are padded to the longest, with "max_length" to `max_length`, by default
        `model_max_length`. Raises ValueError for tensors of another library.
        """
        if return_tensors not in (None, "np", "jax"):
            raise ValueError(f'`return_tensors` is {return_tensors!r}; "np" and "jax" are known here')
        texts = [text] if isinstance(text, str) else list(text)
        limit = max_length or self.model_max_length
        rows = [self.tokenizer.whole(each) for each in texts]
        if truncation:
            rows = [[*row[: limit - 1], self.tokenizer.end_id] if len(row) > limit else row for row in rows]
        longest = max(map(len, rows), default=0)
        width = limit if padding == MAX_LENGTH else longest if padding else 0
        fill = self.tokenizer.pad_id
        ids = [[*row, *[fill] * (width - len(row))] for row in rows]
        mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
        if return_tensors is not None:
            return Settings(input_ids=np.array(ids, np.int32), attention_mask=np.array(mask, np.int32))
        single = isinstance(text, str)
        made: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        return Settings({name: rows[0] if single else rows for name, rows in made.items()})
