"""The page's pure modules, run in Chromium: the parsers of command lines and of Markdown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from bot.sandbox.server import Sandbox

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

IMAGINE = {
    "name": "imagine",
    "description": "Paint a picture",
    "name_localizations": {"ko": "그리기"},
    "options": [
        {"type": 4, "name": "variants", "description": "How many", "min_value": 1, "max_value": 9},
        {
            "type": 3,
            "name": "prompt",
            "description": "What to show",
            "required": True,
            "max_length": 40,
            "name_localizations": {"ko": "내용"},
        },
        {"type": 10, "name": "guidance", "description": "How closely", "min_value": 0, "max_value": 30},
        {"type": 5, "name": "private", "description": "Only for you"},
        {
            "type": 3,
            "name": "sampler",
            "description": "Method",
            "choices": [{"name": "DDIM", "value": "ddim"}],
        },
        {"type": 6, "name": "for", "description": "For whom"},
    ],
}
QUEUE = {"name": "queue", "description": "What waits"}
SETTINGS = {
    "name": "settings",
    "description": "Settings",
    "options": [
        {
            "type": 1,
            "name": "set",
            "description": "Change one",
            "options": [{"type": 4, "name": "steps", "description": "Steps", "required": True}],
        }
    ],
}
READ = """async ([text, raw, locale]) => {
    const { readCommands } = await import("./commands.js");
    const { parseLine, check } = await import("./command_line.js");
    const line = parseLine(text, readCommands(raw, locale));
    if (line.kind !== "command") return { kind: line.kind };
    const people = { members: [{ id: "7", name: "Ravi" }], channels: [] };
    const { values, problems } = check(line, people);
    return { command: line.command.name, values, problems: problems.map((one) => one.sentence) };
}"""
PASTE = """async ([words, before, selected, after, raw]) => {
    const { readCommands } = await import("./commands.js");
    const { withQuoted } = await import("./command_line.js");
    const [text, end] = [before + selected + after, (before + selected).length];
    const pasted = withQuoted(text, before.length, end, words, readCommands(raw, "en-US"));
    return pasted && [pasted.text.slice(0, pasted.caret), pasted.text.slice(pasted.caret)];
}"""
PARSE = """async (text) => (await import("./markdown.js")).parse(text)"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(chromium: Browser) -> AsyncIterator[Page]:
    async with Sandbox() as sandbox:
        opened = await chromium.new_page()
        await opened.goto(sandbox.address)
        yield opened
        await opened.close()


async def read(page: Page, text: str, locale: str = "en-US") -> Any:
    return await page.evaluate(READ, [text, [IMAGINE, QUEUE, SETTINGS], locale])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("/imagine a red heart", {"prompt": "a red heart"}),
        ("/imagine  a red heart variants: 4", {"prompt": "a red heart", "variants": 4}),
        ("/imagine prompt: a heart variants:4", {"prompt": "a heart", "variants": 4}),
        ("/imagine variants: 4 prompt: a heart", {"prompt": "a heart", "variants": 4}),
        ("/Imagine PROMPT: a heart", {"prompt": "a heart"}),
        ("/imagine a sign that says: hello", {"prompt": "a sign that says: hello"}),
        ("/imagine a ratio of 16:9", {"prompt": "a ratio of 16:9"}),
        ('/imagine "a list: variants: 4" private: yes', {"prompt": "a list: variants: 4", "private": True}),
        ('/imagine "hello" and "bye"', {"prompt": '"hello" and "bye"'}),
        ('/imagine "hello" and guidance: 7', {"prompt": '"hello" and', "guidance": 7}),
        ('/imagine """a "b" variants: 4""" private: 1', {"prompt": 'a "b" variants: 4', "private": True}),
        ('/imagine """ "b" variants: 4 "c" """', {"prompt": '"b" variants: 4 "c"'}),
        ('/imagine """hello"""', {"prompt": '"""hello"""'}),
        ('/imagine "" variants: 4', {"prompt": '""', "variants": 4}),
        ("/imagine two\nlines guidance: 7.5", {"prompt": "two\nlines", "guidance": 7.5}),
        ("/imagine a heart sampler: DDIM", {"prompt": "a heart", "sampler": "ddim"}),
        ("/imagine a heart for: @ravi", {"prompt": "a heart", "for": "7"}),
        ("/imagine 빨간 하트 private: false", {"prompt": "빨간 하트", "private": False}),
    ],
)
async def test_a_command_line_gives_its_options(page: Page, text: str, values: dict[str, Any]) -> None:
    assert await read(page, text) == {"command": "imagine", "values": values, "problems": []}


@pytest.mark.parametrize(
    "words",
    [
        "a ring, guidance: 7",
        'a "ring"\nguidance: 7',
        '"a ring" guidance: 7',
        'variants: 2, Lora: "ink:1"',
        'variants: [{"for": "b"}]',
        'a 6" guidance: 7',
        '"""a""" variants: 2',
        'a guidance: 7 "',
    ],
)
@pytest.mark.parametrize(
    ("before", "selected", "after"),
    [
        ("/imagine prompt: ", "", ""),
        ("/imagine prompt:", "", " private: yes"),
        ("/imagine prompt: ", "", "private: yes"),
        ("/imagine prompt: ", "an old ring", " private: yes"),
        ("/imagine prompt: ", '"old, guidance: 2" ', 'private: yes for: "Ravi"'),
    ],
)
async def test_words_that_name_options_are_pasted_as_one_value(
    page: Page, words: str, before: str, selected: str, after: str
) -> None:
    pasted = await page.evaluate(PASTE, [words, before, selected, after, [IMAGINE]])
    assert pasted[0].startswith(before)
    assert pasted[0].endswith('"')
    assert words in pasted[0]
    assert pasted[1].strip() == after.strip()
    values = (await read(page, "".join(pasted)))["values"]
    assert values["prompt"] == words
    assert values.get("private", False) == ("private" in after)


@pytest.mark.parametrize(
    ("words", "before", "after"),
    [
        ("a ring", "/imagine prompt: ", ""),
        ("a ring guidance: 7", "/imagine ", ""),
        ("a ring guidance: 7", "/imagine prompt: an old ", ""),
        ("a ring guidance: 7", "/imagine prompt: ", "of gold"),
        ('"a ring guidance: 7"', "/imagine prompt: ", ""),
        ("3 guidance: 7", "/imagine variants: ", ""),
        ("a ring guidance: 7", "a message: ", ""),
    ],
)
async def test_words_are_pasted_as_they_are_where_they_need_no_quotes(
    page: Page, words: str, before: str, after: str
) -> None:
    assert await page.evaluate(PASTE, [words, before, "", after, [IMAGINE]]) is None


async def test_names_in_the_members_language_and_in_english_are_understood(page: Page) -> None:
    korean = await read(page, "/그리기 내용: 달 variants: 2", "ko")
    english = await read(page, "/imagine prompt: 달 variants: 2", "ko")
    assert korean == english == {
        "command": "imagine", "values": {"prompt": "달", "variants": 2}, "problems": []
    }  # fmt: skip


async def test_a_subcommand_is_named_with_its_whole_path(page: Page) -> None:
    line = await read(page, "/settings set 20")
    assert line == {"command": "settings set", "values": {"steps": 20}, "problems": []}


@pytest.mark.parametrize(
    ("text", "kind"),
    [("", "empty"), ("  ", "empty"), ("hello /imagine", "plain"), ("/im", "naming"), ("/imagine", "naming")],
)
async def test_a_text_that_is_no_complete_command_is_recognised(page: Page, text: str, kind: str) -> None:
    assert await read(page, text) == {"kind": kind}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("/imagine ", ["prompt is needed: What to show"]),
        ("/imagine a variants: 0", ["variants must be a whole number from 1 to 9."]),
        ("/imagine a variants: 2.5", ["variants must be a whole number from 1 to 9."]),
        ("/imagine a guidance: NaN", ["guidance must be a number from 0 to 30."]),
        ("/imagine a guidance: 31", ["guidance must be a number from 0 to 30."]),
        ("/imagine a private: maybe", ["private must be true or false."]),
        ("/imagine a sampler: magic", ["sampler must be one of DDIM."]),
        ("/imagine a for: nobody", ["for must be a member: @Ravi."]),
        ("/imagine " + "a" * 41, ["prompt has 41 characters: shorten it to 40."]),
        ("/imagine a variants: 1 variants: 2", ["variants is given twice."]),
        ("/imagine a variants:", ["variants is empty: give it a value or take it out."]),
        ("/queue now", ["/queue takes no options."]),
    ],
)
async def test_each_mistake_has_its_sentence(page: Page, text: str, problems: list[str]) -> None:
    assert (await read(page, text))["problems"] == problems


def words(nodes: list[dict[str, Any]]) -> list[Any]:
    """The tree as (type, text or children) pairs, shorter to write down."""
    return [
        node["text"]
        if node["type"] == "text"
        else (node["type"], node["text"] if "text" in node else words(node.get("children", [])))
        for node in nodes
    ]


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("**bold** *it* _it_", [("strong", ["bold"]), " ", ("em", ["it"]), " ", ("em", ["it"])]),
        ("***both***", [("strong", [("em", ["both"])])]),
        ("__u__ ~~s~~ ||x||", [("underline", ["u"]), " ", ("strike", ["s"]), " ", ("spoiler", ["x"])]),
        (r"\*\*not\*\* \_this\_", ["**not** _this_"]),
        ("snake_case_name", ["snake_case_name"]),
        ("2 * 3 * 4", ["2 * 3 * 4"]),
        ("**open", ["**open"]),
        ("`**code**`", [("code", "**code**")]),
        ("``a ` b``", [("code", "a ` b")]),
        ("[a](https://b.example/c)", [("link", ["a"])]),
        ("[a](<https://b.example/c_(d)>)", [("link", ["a"])]),
        ("[a](javascript:b)", ["[a](javascript:b)"]),
        ("https://b.example/c_d_e.", [("link", ["https://b.example/c_d_e"]), "."]),
        ("<b>x</b> &amp;", ["<b>x</b> &amp;"]),
    ],
)
async def test_inline_markdown_means_what_discord_means_by_it(
    page: Page, source: str, tree: list[Any]
) -> None:
    assert words(await page.evaluate(PARSE, source)) == [("paragraph", [("line", tree)])]


async def test_blocks_are_headings_subtext_quotes_lists_and_code(page: Page) -> None:
    source = (
        "# Title\n-# small\n> said\n- one\n- two\n4. four\n5. five\n```py\na **b**\n```\n```\nc\n```\nend #1"
    )
    tree = words(await page.evaluate(PARSE, source))
    assert tree == [
        ("heading", ["Title"]),
        ("subtext", ["small"]),
        ("quote", [("line", ["said"])]),
        ("list", [("item", ["one"]), ("item", ["two"])]),
        ("numbered", [("item", ["four"]), ("item", ["five"])]),
        ("codeblock", "a **b**"),
        ("codeblock", "c"),
        ("paragraph", [("line", ["end #1"])]),
    ]


@pytest.mark.parametrize("mark", ["*", "_", "**", "||", "[", "`", "<", "\\", "*_"])
async def test_long_runs_of_marks_are_parsed_quickly(page: Page, mark: str) -> None:
    milliseconds = await page.evaluate(
        """async (text) => {
            const { parse } = await import("./markdown.js");
            const start = performance.now();
            parse(text);
            return performance.now() - start;
        }""",
        (mark + "a ") * 1300 + mark * 1300,
    )
    assert milliseconds < 2000
