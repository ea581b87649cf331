"""The buttons and the form that block a picture which /whose has looked up, and undo a block."""

from __future__ import annotations

from bot.domain.hashes import DIGITS
from bot.front.answers.controls import Button
from bot.front.answers.forms import Form
from bot.front.commands.known import UNBLOCK, ask_block, block_found, unblock_found
from bot.front.commands.whose import BLOCK

NAME = rf"(?P<name>[0-9a-f]{{{DIGITS}}})"


class BlockPictureButton(Button, template=f"{BLOCK}:{NAME}"):
    """For moderators of the server, checked at the press."""

    act = staticmethod(ask_block)


class UnblockPictureButton(Button, template=f"{UNBLOCK}:{NAME}"):
    """For moderators of the server: undoes a block."""

    act = staticmethod(unblock_found)


BLOCK_PICTURE_FORM = Form(template=f"{BLOCK}:{NAME}", act=block_found)
