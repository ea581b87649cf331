"""The button that blocks a picture which /whose has looked up."""

from __future__ import annotations

from bot.front.commands.known import block_found
from bot.front.commands.whose import BLOCK
from bot.front.views.items import Button
from bot.picture_hashes import DIGITS


class BlockPictureButton(Button, template=rf"{BLOCK}:(?P<name>[0-9a-f]{{{DIGITS}}})"):
    """For moderators of the server, checked at the press."""

    act = staticmethod(block_found)
