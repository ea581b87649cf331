"""Which changed keys of the configuration a running process applies at once, and which at its next start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bot.config.config import Config

Keys = Mapping[str, frozenset[str]]
"""Keys by their section."""


def _keys(sections: Mapping[str, str]) -> Keys:
    return MappingProxyType({section: frozenset(keys.split()) for section, keys in sections.items()})


ALIVE: Keys = _keys(
    {
        "discord": "language languages",
        "models": "name checkpoint revision variant vae denoiser int8 timestep_spacing sizes "
        "num_inference_steps guidance_scale guidance_interval clip_skip sampler max_steps prompt_chunks "
        "safety_checker flagged "
        "flagged_spoiler flagged_age_restricted picture_classifier picture_levels picture_threshold loras "
        "lora_rank embeddings controlnets image_prompt image_encoder references preview_decoder licence "
        "licence_link",
        "queue": "drain_seconds max_waiting_per_user max_waiting server_share kept_share "
        "full_share_images roles",
        "pictures": "max_bytes max_pixels waiting_files decode_memory_mib decode_seconds",
        "limits": "requests_per_minute server_requests_per_minute files_per_minute server_files_per_minute",
        "policy": "paint models loras pixels steps variants start_pictures private previews review flagged "
        "flagged_spoiler flagged_age_restricted pictures_per_hour pictures_per_day cost_per_hour "
        "cost_per_day cool_down "
        "weight language bounds",
        "prompts": "styles_file max_permutations keywords_file",
        "provenance": "label",
        "sessions": "host_permission",
        "retention": "picture_days pictures_gib job_days left_server_days audit_days usage_days",
        "log": "level format",
    }
)
"""Keys that a running process takes at once."""

AT_START: Keys = _keys(
    {
        "discord": "token_file api_url gateway_url shard_count shard_ids guild_ids user_install",
        "engine": "dtype seats_per_device fitted_programs cpu_devices device_memory_gib preview_seconds "
        "stuck_seconds cache_dir cache_group cache_wait accelerator",
        "queue": "database artifacts lease_seconds",
        "provenance": "sign certificate private_key algorithm folder required time_authority watermark stamp "
        "aigc",
        "web": "host port token_file",
        "page": "host port address operators readers client_secret_file discord_url",
        "traces": "export",
    }
)
"""Keys that need a restart."""

OF_COMMANDS: Keys = _keys(
    {"fleet": "name check_seconds groups", "usage": "price_per_device_hour prices currency"}
)
"""Keys that `sdjax-bot fleet` and `sdjax-bot usage` read, and no front or worker."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The changed keys, such as `queue.max_waiting`, and the configuration that the process has now."""

    config: Config
    alive: tuple[str, ...] = ()
    at_start: tuple[str, ...] = ()
    of_commands: tuple[str, ...] = ()


def changes(running: Config, found: Config) -> Changes:
    """Compare the configuration of the running process with one that was read again."""
    return Changes(
        config=_with_keys(found, running, AT_START),
        alive=_changed(running, found, ALIVE),
        at_start=_changed(running, found, AT_START),
        of_commands=_changed(running, found, OF_COMMANDS),
    )


def _changed(running: Config, found: Config, keys: Keys) -> tuple[str, ...]:
    return tuple(name for section, of in keys.items() for name in _names(running, found, section, of))


def _names(running: Config, found: Config, section: str, keys: frozenset[str]) -> list[str]:
    before, after = getattr(running, section), getattr(found, section)
    if isinstance(after, tuple):  # [[models]]: compared and reported as a whole
        return [section] if before != after else []
    return [f"{section}.{key}" for key in sorted(keys) if getattr(before, key) != getattr(after, key)]


def _with_keys(config: Config, source: Config, keys: Keys) -> Config:
    """Return the configuration with these keys of another."""
    sections: dict[str, Any] = {}
    for section, of in keys.items():
        values = {key: getattr(getattr(source, section), key) for key in of}
        sections[section] = getattr(config, section).model_copy(update=values)
    return config.model_copy(update=sections)
