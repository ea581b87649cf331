"""The sentences about group sessions, by the keys of `UserMistake`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SESSION_MISTAKES: Mapping[str, str] = MappingProxyType(
    {
        "session_here": (
            "This channel has a group session already: close it first, or open yours in a thread of its own."
        ),
        "sessions_full": "A server can have at most {limit} group sessions at a time: close one first.",
        "session_gone": "The bot no longer knows this group session.",
        "session_none": "There is no group session in this channel: use the command where it is.",
        "session_ended": "This group session has ended.",
        "session_closing": "This group session is ending: wait for its last pictures, and ask again.",
        "session_paused": "The group session is paused: wait until its host resumes it.",
        "session_paused_led": "The group session is paused: type {command} to resume it.",
        "session_paused_host": "You host this group session, and it is paused: resume it, then ask again.",
        "session_not_paused": "The group session is not paused.",
        "session_changed": "A group session began or ended here at this moment: please ask again.",
        "session_moved": (
            "Somebody else has just gone on to the next phase: ask again if you want to go on further."
        ),
        "session_private": "In a group session everyone sees the pictures: ask for one that is not private.",
        "session_round_over": "This round is over: wait until the next one begins.",
        "session_quota": (
            "In a round each person may paint {limit} pictures, and you have {left} left: "
            "ask for fewer, or wait for the next round."
        ),
        "session_quota_used": (
            "You have used your pictures of this round, {limit} for each person: wait for the next one."
        ),
        "session_words": (
            "In this group session every prompt needs these words: {words}. Add them and ask again."
        ),
        "session_long": (
            "With the words of the group session this has more than {limit} characters: shorten your prompt."
        ),
        "session_role": "Only members with the role {role} take part in this group session.",
        "session_right": (
            "Members with the permission {permission}, and moderators, can open a group session: "
            "ask one of them."
        ),
        "session_host": "Only the host of this group session, or a moderator, can do that.",
        "session_moderator": (
            "Only moderators, who may manage messages here, can become the host: ask one of them."
        ),
        "session_theme": "A theme has at most {limit} characters: shorten it.",
        "session_required": (
            "There may be {limit} required words, of up to {characters} characters each: leave some out."
        ),
        "session_minutes": (
            "“{value}” is not the length of a round: type 1 to {limit} minutes, or leave the field empty."
        ),
        "session_pictures": "“{value}” is not a number of pictures: type 1 to {limit}.",
        "session_no_thread": (
            "The bot cannot begin a thread here: allow it to create public threads, "
            "or open the session in this channel."
        ),
        "session_no_post": (
            "The bot cannot begin a post in this forum: allow it to create posts, or choose another channel."
        ),
        "session_two_places": (
            "A session in another channel begins a thread or a post there: leave out one option."
        ),
        "session_not_there": "You may not write in {channel}: choose another channel.",
        "session_no_right": (
            "The bot needs the permissions to see this channel and its history, to write and to attach "
            "files: grant them, or choose another channel."
        ),
        "session_sheet": (
            "This message shows pictures of a group session together: "
            "use the menu of the picture's own message, further up in this channel."
        ),
        "vote_closed": "The vote of this round is over: your vote does not count.",
        "vote_gone": "This picture is gone: vote for another.",
        "vote_own": "You cannot vote for your own picture: choose another.",
    }
)
