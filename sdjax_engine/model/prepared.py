"""Requests made ready for the devices: what these are told, and texts as the encoders read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sdjax_engine.model.encodings import Text
from sdjax_engine.model.loras import LoraBank, SeatRows
from sdjax_engine.model.pictures import Fitted
from sdjax_engine.prompts import Tokens
from sdjax_engine.request import Lora, PromptFacts, Request
from sdjax_engine.weights import Checkpoint


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """All that the devices must be told of a request.

    `texts` are the negative prompt and the prompt, `facts` what became of them; `rows` is the sampler's table
    of `evaluations` rows, filled up to (MAX_ROWS, ROW); `time_ids` are the sizes that the network is told,
    `loras` the rows that its seat gathers.
    """

    request: Request
    texts: tuple[Text, Text] = field(repr=False)
    facts: tuple[PromptFacts, PromptFacts]
    picture: Fitted | None
    rows: npt.NDArray[np.float32] = field(repr=False)
    evaluations: int
    init_noise_sigma: float
    init_latent_scale: float
    time_ids: tuple[float, ...]
    loras: SeatRows = field(repr=False)


class TextReader:
    """Reads prompts for the text encoders of one checkpoint; may be used from any thread.

    `shape` is that of a text's ids: (encoders, chunks, length).
    """

    def __init__(self, checkpoint: Checkpoint, prompt_chunks: int, loras: LoraBank) -> None:
        self._tokenizers = [encoder.tokenizer for encoder in checkpoint.text_encoders]
        self._silence = checkpoint.force_zeros_for_empty_prompt
        self._chunks = prompt_chunks
        self._loras = loras
        self.shape = (len(self._tokenizers), prompt_chunks, self._tokenizers[0].length)

    @property
    def no_text(self) -> Text:
        """The text of a device to which nobody comes."""
        ids, weights = np.zeros(self.shape, np.int32), np.ones(self.shape[1:], np.float32)
        return self._with_loras(Text(ids=ids.tobytes(), weights=weights.tobytes(), chunks=0), ())

    def read(self, text: str, loras: Sequence[Lora], *, negative: bool = False) -> tuple[Text, PromptFacts]:
        """Tokenize for every encoder; an empty negative prompt is silence where the checkpoint says so."""
        read = [tokenizer.tokens(text, max_chunks=self._chunks) for tokenizer in self._tokenizers]
        silent = negative and not text.strip() and self._silence
        first = read[0]
        facts = PromptFacts(tokens=first.count, limit=first.limit, cut=first.cut)
        return self._with_loras(self._text(read, silent=silent), loras), facts

    def _text(self, read: Sequence[Tokens], *, silent: bool) -> Text:
        """The text of all its encoders' tokens, filled up to `shape`."""
        ids, weights = np.zeros(self.shape, np.int32), np.ones(self.shape[1:], np.float32)
        chunks = len(read[0].ids)
        for encoder, tokens in enumerate(read):
            ids[encoder, :chunks] = tokens.ids
        weights[:chunks] = read[0].weights
        return Text(ids=ids.tobytes(), weights=weights.tobytes(), chunks=chunks, silent=silent)

    def _with_loras(self, text: Text, loras: Sequence[Lora]) -> Text:
        """The text as the encoders read it under these LoRAs; the same text where none touches them."""
        if not self._loras.rank_of_texts:
            return text
        rows, scales = self._loras.seat_rows(loras)
        return replace(text, lora_rows=rows.tobytes(), lora_scales=scales.tobytes())
