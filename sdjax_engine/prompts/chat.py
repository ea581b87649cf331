"""Prompts as a message to a language model that serves as text encoder: raw text within a fixed template.

A checkpoint's own template is a program in Jinja, which is not run: the template of each family is constant.
Nothing of a prompt is cleaned or read as emphasis, and names of special tokens that it has, such as
`<|im_end|>`, are these tokens, all as in the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tokenizers

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.prompts.tokenizer_files import read_bpe, read_tokenizer_settings, special_token

BEGIN, FINISH, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
BEFORE = f"{BEGIN}user\n"
AFTER = f"{FINISH}\n{BEGIN}assistant\n"
"""Around a prompt."""
NO_THOUGHTS = "<think>\n\n</think>\n\n"
"""Behind the template of a model that is asked not to think."""


@dataclass(frozen=True, kw_only=True)
class ChatTokens:
    """A prompt in its template as token ids, padded on the right; the first `length` of them count.

    `count` is the number of the prompt's own tokens, `limit` the number of places for them. `cut` is the end
    of the prompt that did not fit.
    """

    ids: npt.NDArray[np.int32] = field(repr=False)
    length: int
    count: int
    limit: int
    cut: str


@dataclass(frozen=True, kw_only=True)
class ChatTokenizer:
    """A byte-level tokenizer whose texts are messages. `size` is the largest id plus one.

    With `thinks` the model may begin with thoughts, otherwise an empty block of them follows the message.
    """

    size: int
    pad_id: int
    bpe: tokenizers.Tokenizer = field(repr=False)
    thinks: bool = True

    @classmethod
    def load(cls, folder: Path, *, thinks: bool = True) -> ChatTokenizer:
        """Read a folder with tokenizer.json; raises UnreadableCheckpoint."""
        if not (folder / "tokenizer.json").is_file():
            raise UnreadableCheckpoint(f"{folder} holds no tokenizer.json.")
        settings = read_tokenizer_settings(folder)
        pad = special_token(settings, "pad_token", PAD)
        bpe = read_bpe(folder, settings, unknown=pad, special=(BEGIN, FINISH, pad))
        vocabulary = bpe.get_vocab()
        return cls(size=1 + max(vocabulary.values()), pad_id=vocabulary[pad], bpe=bpe, thinks=thinks)

    def tokens(self, prompt: str, *, length: int) -> ChatTokens:
        """Return `prompt` in its template as `length` ids; a longer text is cut, template included."""
        prompt = prompt.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
        after = AFTER if self.thinks else AFTER + NO_THOUGHTS
        encoding = self.bpe.encode(f"{BEFORE}{prompt}{after}", add_special_tokens=False)
        around = len(self.bpe.encode(f"{BEFORE}{after}", add_special_tokens=False).ids)
        ids = np.full(length, self.pad_id, np.int32)
        ids[: len(encoding.ids)] = encoding.ids[:length]
        first_lost = encoding.offsets[length][0] if len(encoding.ids) > length else len(BEFORE) + len(prompt)
        return ChatTokens(
            ids=ids,
            length=min(len(encoding.ids), length),
            count=max(len(encoding.ids) - around, 0),
            limit=length - around,
            cut=prompt[first_lost - len(BEFORE) :],
        )
