"""Threads in text channels and posts in forums, which the bot begins."""

from __future__ import annotations

from bot.sandbox import rules
from bot.sandbox.core import Core
from bot.sandbox.objects import channel_object, message_object
from bot.sandbox.permissions import Permission
from bot.sandbox.rejections import FormErrors, Json, Rejection
from bot.sandbox.state import FORUM, GUILD_TEXT, PUBLIC_THREAD, Channel, Event, Message
from bot.sandbox.uploads import Body

MAX_TAGS = 5


def needed_for(parent: Channel) -> Permission:
    """The permission that beginning a thread or a post needs."""
    return Permission.SEND_MESSAGES if parent.type == FORUM else Permission.CREATE_PUBLIC_THREADS


def begin(core: Core, parent: Channel, body: Body) -> Json:
    """Begin a thread without a message, or a post with its first message; return Discord's answer."""
    if parent.type == FORUM:
        return _begin_post(core, parent, body)
    rules.check_thread(body.json, public=PUBLIC_THREAD)
    if parent.type != GUILD_TEXT:
        raise Rejection(400, 50024, "Cannot execute action on this channel type")
    return _added(core, _thread(core, parent, body.json, thread_id=core.world.new_id()))


def _begin_post(core: Core, forum: Channel, body: Body) -> Json:
    rules.check_thread(body.json, public=None)
    _check_tags(forum, body.json.get("applied_tags") or [])
    world, at = core.world, core.world.clock()
    post = _thread(core, forum, body.json, thread_id=world.new_id())
    world.channels[post.id] = post
    first = Message(id=post.id, channel_id=post.id, author_id=world.bot_id, created_at=at)
    try:
        core.posting.check(Body(json=body.json["message"], files=body.files), first)
    except Rejection:
        del world.channels[post.id]
        raise
    seen = _added(core, post)
    core.posting.keep(first)
    return {**seen, "message": message_object(world, first)}


def _check_tags(forum: Channel, wanted: list[str]) -> None:
    """Check the tags of a new post, given by their ids; raises Discord's errors."""
    if forum.tag_required and not wanted:
        raise Rejection(400, 40067, "A tag is required to create a forum post in this channel")
    errors = FormErrors()
    errors.length(("applied_tags",), wanted, 0, MAX_TAGS)
    errors.check()
    if unknown := [tag for tag in wanted if int(tag) not in forum.tags]:
        raise Rejection(400, 10087, f"Unknown tag: {unknown[0]}")


def _thread(core: Core, parent: Channel, body: Json, *, thread_id: int) -> Channel:
    return Channel(
        id=thread_id,
        name=str(body["name"]),
        type=PUBLIC_THREAD,
        parent_id=parent.id,
        owner_id=core.world.bot_id,
    )


def _added(core: Core, thread: Channel) -> Json:
    core.world.channels[thread.id] = thread
    body = channel_object(core.world, thread)
    core.world.emit(Event(type="THREAD_CREATE", data=body))
    return body
