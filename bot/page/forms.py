"""The bodies of our forms, and the answers that lead back to a view."""

from __future__ import annotations

from aiohttp import web
from multidict import MultiDictProxy

Field = str | bytes | bytearray | web.FileField


async def form_of(request: web.Request) -> MultiDictProxy[Field]:
    """Return the fields of a form of ours; raises HTTPBadRequest for a body that none of our pages sends."""
    try:
        if request.content_type.startswith("multipart/"):
            raise ValueError("our forms are not sent in parts")
        return await request.post()
    except (ValueError, LookupError):  # bytes or a name of an encoding that do not exist
        raise web.HTTPBadRequest(text="This is no form of this page.") from None


def back(path: str) -> web.Response:
    """Return an answer that leads the browser to a path of ours."""
    return web.Response(status=303, headers={"Location": path})
