"""The prompts of the documentation's pictures, and the sizes that they are painted in.

The demo's checkpoint knows every word here. After a change of the checkpoint, change this table, and run
`make pictures`.
"""

from __future__ import annotations

from bot.config import ModelConfig

_SIZES = ModelConfig().sizes
SIZE, LARGER = _SIZES[0], _SIZES[-1] if len(_SIZES) > 1 else "160x160"
"""The size of all pictures, and of the enlarged one."""

PAIR = "a red heart left of a blue star"
OTHER_PAIR = "a green heart left of a blue star"
"""PAIR with one word changed."""

CHANGED = ("red", "green")
"""The word of PAIR that is changed, and the word in its place."""

UPLOADED = "a pink heart"
"""Painted from a plain picture, under a mask."""

ALTERNATIVES = "a {red, blue, green} {star, heart}"
SEED_OF_GRID, SEED_OF_FILM = 3, 6

THEME = "on a yellow background"
"""The theme of the group session; its words are added to each prompt."""

RAVIS, OMARS, WEIS = "a blue star", "a red heart", "a purple ring"
"""Prompts of the first round, by painter. A moderator rejects OMARS, and accepts the appeal."""

RAVIS_SECOND = "a white moon"
"""A prompt of the second round."""
