"""A checkpoint's tokenizer files: tokenizer.json, or vocab.json with merges.txt, and their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import read_json

DEFAULT_LENGTH = 77
WORDS = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d"
    r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the tokenizer's settings from its one or two files.

    In old folders, whose tokenizer_config.json does not list the added tokens, special_tokens_map.json takes
    precedence. In later folders it is not read. This is the reference's rule; SD 2.x pads with "!" by it.
    """
    settings = read_settings_in(folder / "tokenizer_config.json")
    if "added_tokens_decoder" not in settings:
        settings |= read_settings_in(folder / "special_tokens_map.json")
    return settings


def read_settings_in(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, or an empty object if there is no file."""
    return read_json(path) if path.exists() else {}


def special_token(settings: dict[str, Any], role: str, default: str) -> str:
    """Return the token of this role; older files have an object in place of the token's text."""
    token = settings.get(role) or default
    return str(token.get("content", default) if isinstance(token, dict) else token)


def length_of(settings: dict[str, Any]) -> int:
    """Return the number of ids of a prompt; files without a limit contain a huge number."""
    length = settings.get("model_max_length", DEFAULT_LENGTH)
    return int(length) if isinstance(length, int) and 2 < length <= 1024 else DEFAULT_LENGTH


def read_bpe(folder: Path, *, unknown: str, special: tuple[str, ...]) -> tokenizers.Tokenizer:
    """Return the bare tokenizer, without truncation or padding, from either form of files."""
    whole, vocabulary, merges = (folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt"))
    if not whole.is_file() and not (vocabulary.is_file() and merges.is_file()):
        raise UnreadableCheckpoint(f"{folder} holds neither tokenizer.json nor vocab.json with merges.txt.")
    try:
        if whole.is_file():
            bpe = tokenizers.Tokenizer.from_file(str(whole))
        else:
            bpe = build_bpe(vocabulary, merges, unknown=unknown)
    except Exception as error:
        raise UnreadableCheckpoint(f"The tokenizer in {folder} cannot be read: {error}.") from error
    missing = [token for token in special if bpe.token_to_id(token) is None]
    if missing:
        raise UnreadableCheckpoint(f"The vocabulary in {folder} lacks the token {missing[0]}.")
    bpe.add_special_tokens([AddedToken(token, special=True) for token in dict.fromkeys(special)])
    bpe.no_truncation()
    bpe.no_padding()
    return bpe


def build_bpe(vocabulary: Path, merges: Path, *, unknown: str) -> tokenizers.Tokenizer:
    """Return CLIP's tokenizer over these files: lower case, one space between words, byte-level pairs."""
    pairs = models.BPE.from_file(
        str(vocabulary),
        str(merges),
        unk_token=unknown,
        continuing_subword_prefix="",
        end_of_word_suffix="</w>",
    )
    bpe = tokenizers.Tokenizer(pairs)
    bpe.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return bpe
