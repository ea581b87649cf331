"""The types of the command line's values. An error says what to write instead."""

from __future__ import annotations

from pathlib import Path

import click

READABLE = ("PNG", "JPEG", "WEBP")


class SizeParameter(click.ParamType[tuple[int, int]]):
    """A size such as 512x384: width and height in pixels, multiples of 8."""

    name = "WxH"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return (width, height)."""
        if isinstance(value, tuple):
            return int(value[0]), int(value[1])
        width, _, height = str(value).lower().partition("x")
        if not (width.isascii() and width.isdigit() and height.isascii() and height.isdigit()):
            self.fail(f"“{value}” is not a size: write width x height, such as 512x512.", param, ctx)
        size = int(width), int(height)
        if any(side % 8 or not 64 <= side <= 2048 for side in size):
            self.fail(f"{value} cannot be painted: each side is a multiple of 8 from 64 to 2048.", param, ctx)
        return size


class PictureParameter(click.ParamType[Path]):
    """A PNG, JPEG or WebP file. Its header is checked before a heavy module is imported."""

    name = "FILE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the file."""
        file = Path(str(value))
        if not file.is_file():
            self.fail(f"there is no file {file}.", param, ctx)
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(file, formats=READABLE):
                return file
        except (UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError):
            self.fail(f"{file} is not a picture that can be used: name a PNG, JPEG or WebP file.", param, ctx)


class VariantParameter(click.ParamType[str]):
    """The name of a checkpoint's variant of weights, such as fp16."""

    name = "NAME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        name = str(value)
        if name.isdigit():
            self.fail(
                f"“{name}” is no variant of weights, such as fp16: for several pictures, --variants {name}.",
                param,
                ctx,
            )
        return name
