"""A checkpoint's tokenizer files: tokenizer.json, or vocab.json with merges.txt, and their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers

from sdjax_engine.errors import UnreadableCheckpoint, cut, first_line, quoted
from sdjax_engine.json_files import read_json

DEFAULT_LENGTH = 77
MOST_ADDED = 10_000
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
WORDS = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d"
    r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


KNOWN_SPLITS = frozenset(
    {
        WORDS,
        WORDS.removeprefix(r"<\|startoftext\|>|<\|endoftext\|>|"),
        # Qwen's
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+",
    }
)
KNOWN_NORMALIZERS: tuple[dict[str, Any], ...] = (
    {"type": "NFC"},
    {"type": "Lowercase"},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
)
STEPS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}
"""The key of a sequence's steps."""


def check_kind(file: Path) -> None:
    """Raise UnreadableCheckpoint unless a tokenizer.json is byte-level pairs of CLIP's or Qwen's kind.

    Such a file is a small program: others could replace a letter by millions, or search for hours.
    """
    content = read_json(file)
    unknown = [
        name
        for name, is_known in (
            ("model", _is_known_model(content.get("model"))),
            ("normalizer", all(each in KNOWN_NORMALIZERS for each in steps_of(content, "normalizer"))),
            ("pre_tokenizer", all(map(_splits_as_known, steps_of(content, "pre_tokenizer")))),
        )
        if not is_known
    ]
    if unknown:
        raise UnreadableCheckpoint(f"{file} is no tokenizer of CLIP's or Qwen's kind, by its {unknown[0]}.")
    check_added(content, file)


def check_added(content: dict[str, Any], file: Path) -> None:
    """Raise UnreadableCheckpoint where a tokenizer.json adds more tokens than any published one."""
    added = content.get("added_tokens")
    if isinstance(added, list) and len(added) > MOST_ADDED:
        raise UnreadableCheckpoint(f"{file} has more than {MOST_ADDED} added tokens.")


def _is_known_model(model: Any) -> bool:
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict):
        return False
    unknown = model.get("unk_token")
    named = unknown is None or (isinstance(unknown, str) and unknown in model["vocab"])
    is_plain = not (model.get("dropout") or model.get("continuing_subword_prefix"))
    return named and is_plain and model.get("type", "BPE") == "BPE"


def steps_of(content: dict[str, Any], part: str) -> list[Any]:
    """Return the steps of a part of a tokenizer.json: one, or those of a sequence."""
    whole = content.get(part)
    if isinstance(whole, dict) and whole.get("type") == "Sequence":
        steps = whole.get(STEPS[part])
        return steps if isinstance(steps, list) else [None]
    return [] if whole is None else [whole]


def _splits_as_known(step: Any) -> bool:
    if not isinstance(step, dict):
        return False
    if step.get("type") == "ByteLevel":
        return not step.get("add_prefix_space")
    pattern = step.get("pattern")
    known = isinstance(pattern, dict) and pattern.get("Regex") in KNOWN_SPLITS
    return step.get("type") == "Split" and known


def read_tokenizer_settings(folder: Path) -> dict[str, Any]:
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
    text = str(token.get("content", default) if isinstance(token, dict) else token)
    return text.encode("utf-8", "replace").decode()  # JSON may have half of a surrogate pair


def length_of(settings: dict[str, Any]) -> int:
    """Return the number of ids of a prompt; files without a limit contain a huge number."""
    length = settings.get("model_max_length", DEFAULT_LENGTH)
    return int(length) if isinstance(length, int) and 2 < length <= 1024 else DEFAULT_LENGTH


def added_tokens(folder: Path, settings: dict[str, Any]) -> dict[int, AddedToken]:
    """Return the tokens that textual inversion added to a vocab.json, by their ids.

    They are in the settings, or in added_tokens.json of older folders. Raises UnreadableCheckpoint.
    """
    listed = settings.get("added_tokens_decoder")
    try:
        if listed is None:
            others = read_settings_in(folder / "added_tokens.json")
            found = {int(index): AddedToken(str(text), normalized=True) for text, index in others.items()}
        else:
            found = {
                int(index): AddedToken(
                    str(token["content"]), **{flag: bool(token[flag]) for flag in FLAGS if flag in token}
                )
                for index, token in listed.items()
            }
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UnreadableCheckpoint(
            f"The added tokens in {folder} cannot be read: {first_line(error)}"
        ) from error
    if len(found) > MOST_ADDED:
        raise UnreadableCheckpoint(f"{folder} has more than {MOST_ADDED} added tokens.")
    return dict(sorted(found.items()))


def add(bpe: tokenizers.Tokenizer, added: dict[int, AddedToken], folder: Path) -> None:
    """Add the tokens that the vocabulary lacks, each with its id; raises UnreadableCheckpoint."""
    for index, token in added.items():
        if bpe.token_to_id(token.content) is None:
            bpe.add_tokens([token])
            if bpe.token_to_id(token.content) != index:
                raise UnreadableCheckpoint(
                    f"The tokenizer in {folder} has no place for the added token {quoted(token.content)}, "
                    f"whose id is {index}."
                )


def read_bpe(
    folder: Path, settings: dict[str, Any], *, unknown: str, special: tuple[str, ...]
) -> tokenizers.Tokenizer:
    """Return the bare tokenizer, which neither cuts nor adds anything, from either form of files."""
    whole, vocabulary, merges = (folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt"))
    if not whole.is_file() and not (vocabulary.is_file() and merges.is_file()):
        raise UnreadableCheckpoint(f"{folder} holds neither tokenizer.json nor vocab.json with merges.txt.")
    try:
        if whole.is_file():
            check_kind(whole)
            bpe = tokenizers.Tokenizer.from_file(str(whole))
        else:
            bpe = build_bpe(vocabulary, merges, unknown=unknown)
            add(bpe, added_tokens(folder, settings), folder)
    except UnreadableCheckpoint:
        raise
    except Exception as error:
        raise UnreadableCheckpoint(
            f"The tokenizer in {folder} cannot be read: {cut(first_line(error))}"
        ) from error
    return bare(bpe, folder, special)


def bare(tokenizer: tokenizers.Tokenizer, folder: Path, special: tuple[str, ...]) -> tokenizers.Tokenizer:
    """Return the tokenizer without what cuts texts or adds to them, with these special tokens.

    Raises UnreadableCheckpoint if it lacks one of them.
    """
    missing = [token for token in special if tokenizer.token_to_id(token) is None]
    if missing:
        raise UnreadableCheckpoint(f"The vocabulary in {folder} lacks the token {quoted(missing[0])}.")
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in dict.fromkeys(special)])
    tokenizer.post_processor = None  # it could repeat a prompt a million times
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


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
