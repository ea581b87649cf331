"""The form of “Use this recipe”, and the button that opens it after a file took long to read."""

from __future__ import annotations

from bot.front.answers.controls import Button
from bot.front.answers.forms import Form
from bot.front.commands.use_recipe import READ, open_read, paint_recipe
from bot.front.requests.recipe_form import ALL, ALONE, RECIPE


class RecipeButton(Button, template=rf"{READ}:(?P<kept>[0-9a-f]+)"):
    """For the person who chose the menu, for a day at most and while this process runs."""

    act = staticmethod(open_read)


RECIPE_FORM = Form(template=rf"{RECIPE}:(?P<visibility>{ALL}|{ALONE})", act=paint_recipe)
