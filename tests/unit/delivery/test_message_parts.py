"""What Discord is sent for a message's content."""

from __future__ import annotations

from typing import Any

from bot.delivery.content import ButtonContent, Choice, MenuContent, MessageContent, PictureContent, Tone
from bot.delivery.discord_requests import COLOURS, layout, parts_of
from bot.delivery.pictures import PictureFile

TEXT, ROW, BUTTON, SELECT, GALLERY = 10, 1, 2, 3, 12
PRIMARY, SECONDARY, DANGER = 1, 2, 4


def parts(content: MessageContent, *file_names: str) -> list[dict[str, Any]]:
    """The parts of the one container of a message."""
    (container,) = layout(content, file_names=file_names).to_components()
    assert container["accent_color"] == COLOURS[content.tone]
    return list(container["components"])


def button(name: str, **how: bool) -> ButtonContent:
    return ButtonContent(label=name.upper(), custom_id=name, **how)


def menu(name: str, *choices: Choice, most: int = 1) -> MenuContent:
    return MenuContent(custom_id=name, placeholder=f"{name}?", choices=choices, most=most)


def test_texts_stand_above_and_below_the_pictures() -> None:
    content = MessageContent(
        heading="heading",
        status="status",
        footer="footer",
        folded="folded",
        pictures=(
            PictureContent(artifacts=("a",), stem="one", alt="first"),
            PictureContent(artifacts=("b",), stem="two", alt="second", spoiler=True),
        ),
        tone=Tone.DONE,
    )
    above, first, second, below = parts(content, "one.png", "two.png")
    assert (above["type"], above["content"]) == (TEXT, "heading\nstatus")
    assert (below["type"], below["content"]) == (TEXT, "footer\nfolded")
    assert [part["type"] for part in (first, second)] == [GALLERY, GALLERY]
    (item,) = second["items"]
    assert (item["media"]["url"], item["description"], item["spoiler"]) == (
        "attachment://two.png",
        "second",
        True,
    )
    assert first["items"][0]["spoiler"] is False


def test_without_files_a_message_has_no_pictures_and_without_a_footer_no_text_below() -> None:
    picture = PictureContent(artifacts=("a",), stem="one", alt="first")
    (above,) = parts(MessageContent(heading="heading", pictures=(picture,), tone=Tone.RUNNING))
    assert above["content"] == "heading"


def test_buttons_have_their_rows_and_the_style_of_their_meaning() -> None:
    rows = (button("plain"), button("best", primary=True)), (button("gone", dangerous=True),)
    _, first, second = parts(MessageContent(heading="x", rows=rows, tone=Tone.FAILED))
    found = [(each["type"], each["custom_id"], each["label"], each["style"]) for each in first["components"]]
    assert found == [(BUTTON, "plain", "PLAIN", SECONDARY), (BUTTON, "best", "BEST", PRIMARY)]
    assert [each["style"] for each in second["components"]] == [DANGER]


def test_menus_stand_before_the_buttons_and_more_before_the_last_row() -> None:
    content = MessageContent(
        heading="x",
        menus=(menu("first", Choice(label="A", value="a")),),
        rows=((button("one"),), (button("two"),)),
        more=menu("more", Choice(label="B", value="b", description="why"), Choice(label="C", value="c")),
        tone=Tone.DONE,
    )
    _, *rows = parts(content)
    assert {row["type"] for row in rows} == {ROW}
    assert [row["components"][0]["custom_id"] for row in rows] == ["first", "one", "more", "two"]
    more = rows[2]["components"][0]
    assert (more["type"], more["placeholder"], more["max_values"]) == (SELECT, "more?", 1)
    assert [(each["label"], each["value"], each.get("description")) for each in more["options"]] == [
        ("B", "b", "why"),
        ("C", "c", None),
    ]


def test_a_menu_takes_no_more_choices_than_it_has() -> None:
    choices = Choice(label="A", value="a"), Choice(label="B", value="b")
    menus = (menu("few", *choices, most=5), menu("one", *choices))
    _, few, one = parts(MessageContent(heading="x", menus=menus, tone=Tone.DONE))
    assert [row["components"][0]["max_values"] for row in (few, one)] == [2, 1]


async def test_a_message_goes_with_its_files_by_their_names_and_mentions_nobody() -> None:
    picture = PictureContent(artifacts=("a",), stem="one", alt="first")
    content = MessageContent(heading="@everyone", pictures=(picture,), tone=Tone.DONE)
    sent = parts_of(content, [PictureFile(data=b"pixels", suffix=".png")])
    assert [(file.filename, file.fp.read()) for file in sent["attachments"]] == [("one.png", b"pixels")]
    assert sent["allowed_mentions"].to_dict() == {"parse": []}
    (container,) = sent["view"].to_components()
    assert container["components"][1]["items"][0]["media"]["url"] == "attachment://one.png"
