"""Our tokenizer against the reference's `CLIPTokenizer`, on both forms of files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from checkpoints import make_tiny_checkpoint
from diffusers.pipelines.wan.pipeline_wan import basic_clean  # CLIP's cleaning, kept for other encoders
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import CLIPTokenizer

from sdjax_engine.prompts import Tokenizer, clean, read_prompt

pytestmark = pytest.mark.parity

PROMPTS = [
    "",
    "a red circle on the white square",
    "A  RED\n\tCircle's 3 stars, don't!!",
    "빨간 동그라미와 파란 별",
    "نجمة حمراء كبيرة على خلفية سوداء",
    "红色的圆形 黒い背景",
    "🎨👩‍🚀 café naïve İstanbul ﬁne",
    "a star<|endoftext|>and <|startoftext|>more",
    "tail " * 100,
]


@pytest.fixture(scope="module", params=["new", "old"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    form = request.param
    return make_tiny_checkpoint(tmp_path_factory.mktemp(form), tokenizer={"form": form}) / "tokenizer"


@pytest.fixture(scope="module")
def reference(folder: Path) -> CLIPTokenizer:
    return CLIPTokenizer.from_pretrained(folder)


def ids_of(reference: CLIPTokenizer, text: str) -> list[int]:
    ids: list[int] = reference(clean(text), padding="max_length", truncation=True, max_length=77).input_ids
    return ids


@pytest.mark.parametrize("prompt", PROMPTS)
def test_ids_are_the_references(prompt: str, folder: Path, reference: CLIPTokenizer) -> None:
    assert Tokenizer.load(folder).encode(prompt).tolist() == ids_of(reference, prompt)


@pytest.mark.parametrize("added", [{}, {"added_tokens_decoder": {}}], ids=["older", "newer"])
def test_padding_is_the_references_if_two_files_disagree(
    added: dict[str, object], folder: Path, tmp_path: Path
) -> None:
    disagreeing = Path(shutil.copytree(folder, tmp_path / "tokenizer"))
    settings_file = disagreeing / "tokenizer_config.json"
    settings_file.write_text(json.dumps(json.loads(settings_file.read_text()) | added))
    (disagreeing / "special_tokens_map.json").write_text(json.dumps({"pad_token": {"content": "!"}}))
    reference = CLIPTokenizer.from_pretrained(disagreeing)

    for text in ("a red circle", "a star! wow !!"):
        assert Tokenizer.load(disagreeing).encode(text).tolist() == ids_of(reference, text)


def test_ids_of_any_text_are_the_references(folder: Path, reference: CLIPTokenizer) -> None:
    tokenizer = Tokenizer.load(folder)

    @settings(max_examples=300)
    @given(st.text(max_size=120))
    def check(text: str) -> None:
        assert tokenizer.encode(text).tolist() == ids_of(reference, text)

    check()


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_plain_prompt_has_the_references_ids_in_its_one_chunk(
    prompt: str, folder: Path, reference: CLIPTokenizer
) -> None:
    tokens = Tokenizer.load(folder).tokens(read_prompt(prompt), max_chunks=1)

    assert tokens.ids.tolist() == [ids_of(reference, prompt)]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a ((red:1.3) circle) on [the white square]", "a red circle on the white square"),
        ("（빨간 동그라미：１．３）와 파란 별", "빨간 동그라미 와 파란 별"),
        (r"(نجمة \(حمراء\):٠٫٨) كبيرة", "نجمة (حمراء) كبيرة"),
    ],
)
def test_emphasis_changes_no_ids(written: str, meant: str, folder: Path, reference: CLIPTokenizer) -> None:
    tokens = Tokenizer.load(folder).tokens(read_prompt(written), max_chunks=1)

    assert tokens.ids.tolist() == [ids_of(reference, meant)]


@given(
    st.text(max_size=80)
    | st.text(st.sampled_from("aÃ©â€œΣς&;<>ampltqo #39İ한글色م\u3000\x85\x1c\u0301"), max_size=80)
)
@example("빨간 동그라미 &amp;amp; caf\u00c3\u00a9 \u201cﬁne\u201d")
@example("نجمة، &lt;b&gt; \x00\x1f ｆｕｌｌ　ｗｉｄｔｈ（１）")
def test_cleaning_is_that_of_clips_own_code(text: str) -> None:
    assert clean(text) == basic_clean(text)


TOKENS = {"<cat-toy>": 0, "Zwx Style": 1, "<cat-toy>_1": 2}
WITH_TOKENS = (
    "a <cat-toy> on the square",
    "A <CAT-TOY>, and zwx style",
    "Zwx Style!",
    "red<cat-toy><cat-toy>_1 star",
)


@pytest.mark.parametrize("form", ["added_tokens.json", "added_tokens_decoder"])
def test_tokens_that_textual_inversion_added_have_their_ids(form: str, tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path / "old", tokenizer={"form": "old"}) / "tokenizer"
    size = len(json.loads((folder / "vocab.json").read_text()))
    added = {text: size + index for text, index in TOKENS.items()}
    if form == "added_tokens.json":
        (folder / form).write_text(json.dumps(added))
    else:
        file = folder / "tokenizer_config.json"
        listed = {
            str(index): {
                "content": text,
                "special": False,
                "normalized": text != "Zwx Style",
                "single_word": False,
                "lstrip": False,
                "rstrip": True,
            }
            for text, index in added.items()
        }
        file.write_text(json.dumps(json.loads(file.read_text()) | {form: listed}))
    reference, ours = CLIPTokenizer.from_pretrained(folder), Tokenizer.load(folder)

    assert ours.size == size + len(TOKENS)
    for prompt in (*WITH_TOKENS, *PROMPTS):
        assert ours.encode(prompt).tolist() == ids_of(reference, prompt)
