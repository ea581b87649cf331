"""Avatars of users without a picture: an initial on a colour; pure."""

from __future__ import annotations

from html import escape

from bot.sandbox.state import User


def avatar(user: User) -> str:
    """Return an SVG that depends on the user only."""
    hue = (user.id * 47) % 360
    lightness = 35 if user.bot else 42
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 80" role="img">'
        f"<title>{escape(user.global_name)}</title>"
        f'<circle cx="40" cy="40" r="40" fill="hsl({hue} 55% {lightness}%)"/>'
        '<text x="40" y="54" font-family="sans-serif" font-size="40" font-weight="600" fill="#fff"'
        f' text-anchor="middle">{escape(user.global_name[:1].upper())}</text></svg>'
    )
