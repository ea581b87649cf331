"""The parts of a front's services that the configuration sets, at the start and when it changes."""

from __future__ import annotations

from typing import Any

from bot.config import Config
from bot.domain.quotas import Caps
from bot.front.recipes.keywords import Keywords
from bot.front.services.standing import Operator
from bot.front.uploads.attachments import Attachments, WaitingRoom
from bot.front.uploads.decoder import MIB, Decoder
from bot.front.uploads.resolver import Resolver
from bot.front.uploads.untrusted_picture import Limits
from bot.moderation.limits import Pace, Rates
from bot.moderation.policy import policy_from
from bot.store.library.styles import Style


def configured_services(config: Config, keywords: Keywords | None) -> dict[str, Any]:
    """Return the values by their names in `Services`; `keywords` are those of the configured file, if any."""
    return {
        "caps": _caps(config),
        "operator": operator_of(config),
        "styles": _styles(config),
        "keywords": keywords,
        "limits": config.limits,
        "retention": config.retention,
        "max_permutations": config.prompts.max_permutations,
        "role_permutations": {
            role.role: role.max_permutations for role in config.queue.roles if role.max_permutations
        },
        "language": config.discord.language,
        "languages": config.discord.languages,
        "label": config.provenance.told,
        "host_permission": config.sessions.host_permission,
    }


def operator_of(config: Config) -> Operator:
    """Return what the operator says of what is allowed."""
    return Operator(
        policy=policy_from(config.policy.said),
        bounds=policy_from(config.policy.bounds.said),
        weights={role.role: role.weight for role in config.queue.roles},
    )


def rates_of(config: Config) -> Rates:
    """Return how often people and servers may ask."""
    return Rates(
        requests=config.limits.requests_per_minute,
        server_requests=config.limits.server_requests_per_minute,
        files=config.limits.files_per_minute,
        server_files=config.limits.server_files_per_minute,
    )


def attachments_of(config: Config, pace: Pace, resolver: Resolver, room: WaitingRoom) -> Attachments:
    """Return the configured `Attachments`, which fetches and decodes people's files."""
    pictures = config.pictures
    limits = Limits(max_bytes=pictures.max_bytes, max_pixels=pictures.max_pixels)
    decoder = Decoder(limits=limits, memory=pictures.decode_memory_mib * MIB, seconds=pictures.decode_seconds)
    return Attachments(
        limits=limits,
        decoder=decoder,
        room=room,
        pace=pace,
        api_url=config.discord.api_url,
        resolver=resolver,
    )


def _caps(config: Config) -> Caps:
    return Caps(
        waiting_per_user=config.queue.max_waiting_per_user,
        waiting_per_server=max(1, int(config.queue.server_share * config.queue.max_waiting)),
        waiting=config.queue.max_waiting,
        kept=config.queue.kept_share,
        images_at_full_share=config.queue.full_share_images,
    )


def _styles(config: Config) -> tuple[Style, ...]:
    return tuple(
        Style(
            name=style.name, prompt=style.prompt, negative_prompt=style.negative_prompt, options=style.options
        )
        for style in config.prompts.styles
    )
