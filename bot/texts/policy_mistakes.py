"""The sentences for people about policies, in their English form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MISTAKES: Mapping[str, str] = MappingProxyType(
    {
        "policy_paint": "You may not paint here: ask a moderator who may, and where.",
        "policy_model": "The model {value} is not allowed here: choose from {choices}.",
        "policy_size": "{value} is larger than pictures may be here: choose at most about {limit}.",
        "policy_steps": "At most {limit} steps are allowed here: choose fewer.",
        "policy_variants": "At most {limit} pictures at once are allowed here: ask for fewer.",
        "policy_lora": "The LoRA {value} is not allowed here: leave it out. Allowed: {choices}.",
        "policy_start_pictures": "Pictures may not start from another picture here: describe it in words.",
        "policy_private_never": "Private results are not allowed here: ask for one that everyone sees.",
        "policy_private_always": "Results are private here: ask for a private one.",
        "publish_policy": "The policy here does not allow this picture: publish it in another channel.",
        "publish_rule": (
            "The rule “{rule}” of this server does not allow this here: publish it in another channel."
        ),
        "policy_right": "You need the permission Manage Server to change policies: ask a server manager.",
        "policy_nothing": "There is no such policy: {command} shows the policies of this server.",
        "policy_two": "A policy is for a role or for a channel: leave one of the two out.",
        "policies_full": "A server can have at most {limit} policies: reset one first.",
        "policy_number": (
            "“{value}” is not a number that fits “{name}”: write one from {least} to {limit}, "
            "“-” for no limit, or nothing."
        ),
        "policy_pixels": "“{value}” is not a size: write one such as 768x768, “-” for no limit, or nothing.",
        "policy_unknown": "“{value}” is not offered here: choose from {choices}, with commas between.",
        "quota_pictures_per_hour": "Pictures an hour: you may ask for {limit} here, {left} are left.",
        "quota_pictures_per_day": "Pictures a day: you may ask for {limit} here, {left} are left.",
        "quota_cost_per_hour": "Hourly cost, in standard pictures: you have {limit} here, {left} are left.",
        "quota_cost_per_day": "Daily cost, in standard pictures: you have {limit} here, {left} are left.",
        "quota_cool_down": "Between two requests there must be {seconds} seconds here.",
        "quota_again": "Please ask again {at}.",
        "quota_next": "The next is free {at}.",
        "quota_fewer": "Ask for fewer or smaller pictures.",
    }
)
"""The sentence of each UserMistake about policies."""
