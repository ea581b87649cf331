"""The whole configuration: reads the file, and reports all of its mistakes at once."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError
from yarl import URL

from bot.config.addresses import leaves_unencrypted
from bot.config.connection import DiscordConfig
from bot.config.engine import EngineSection
from bot.config.fleet import FleetConfig
from bot.config.mistakes import sentences
from bot.config.models import ModelConfig
from bot.config.operators import LogConfig, TracesConfig, WebConfig
from bot.config.people import LimitsConfig, PicturesConfig
from bot.config.policy import PolicyConfig
from bot.config.prompts import PromptsConfig
from bot.config.provenance import ProvenanceConfig
from bot.config.queue import QueueConfig, RetentionConfig
from bot.config.section import Section
from bot.config.sessions import SessionsConfig
from bot.config.usage import UsageConfig
from bot.errors import ConfigurationError

MAX_MODELS = 25  # Discord shows at most 25 choices


class Config(Section):
    """The whole configuration."""

    discord: DiscordConfig = DiscordConfig()
    models: Annotated[tuple[ModelConfig, ...], Field(min_length=1, max_length=MAX_MODELS)] = (ModelConfig(),)
    engine: EngineSection = EngineSection()
    fleet: FleetConfig = FleetConfig()
    queue: QueueConfig = QueueConfig()
    pictures: PicturesConfig = PicturesConfig()
    limits: LimitsConfig = LimitsConfig()
    policy: PolicyConfig = PolicyConfig()
    prompts: PromptsConfig = PromptsConfig()
    provenance: ProvenanceConfig = ProvenanceConfig()
    retention: RetentionConfig = RetentionConfig()
    sessions: SessionsConfig = SessionsConfig()
    usage: UsageConfig = UsageConfig()
    web: WebConfig = WebConfig()
    log: LogConfig = LogConfig()
    traces: TracesConfig = TracesConfig()

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """Read the TOML file at `path`; raises ConfigurationError, which lists every mistake in it."""
        path = Path(path)
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} is not TOML: {error}.") from None
        return cls.parse(document, name=str(path))

    @classmethod
    def parse(cls, document: Mapping[str, Any], *, name: str = "the configuration") -> Config:
        """Check a parsed TOML file; `name` is the file's name in the ConfigurationError."""
        mistakes = [*_repeated_models(document), *_unknown_models(document)]
        try:
            # Through JSON, pydantic's strict mode takes a list for a tuple, but neither "2" nor true for 2.
            config = cls.model_validate_json(json.dumps(document, default=str), strict=True)
        except ValidationError as error:
            mistakes += sentences(error, cls)
        if mistakes:
            raise ConfigurationError("\n".join([f"{name} cannot be used:", *mistakes]))
        return config

    @property
    def warnings(self) -> list[str]:
        """One sentence for each address to which secrets leave this machine without encryption."""
        sent = {
            "discord.api_url": (self.discord.api_url, "the bot's token and what people type"),
            "discord.gateway_url": (self.discord.gateway_url, "the bot's token and what people type"),
            "queue.artifacts": (self.queue.artifacts, "people's pictures"),
        }
        return [
            f"{key} is not encrypted: on the way to {URL(address).host}, others can read {what}."
            for key, (address, what) in sent.items()
            if leaves_unencrypted(address)
        ]


def _repeated_models(document: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each model name that occurs twice."""
    names = Counter(_names(document))
    return [f"models: {count} models are called “{name}”." for name, count in names.items() if count > 1]


def _unknown_models(document: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each model of a group of the fleet that does not exist."""
    fleet, known = document.get("fleet"), set(_names(document))
    groups = fleet.get("groups") if isinstance(fleet, dict) else None
    return [
        f"fleet.groups[{number}].models: there is no model “{name}”."
        for number, group in enumerate(groups if isinstance(groups, list) else [], 1)
        if isinstance(group, dict) and isinstance(group.get("models"), list)
        for name in group["models"]
        if isinstance(name, str) and name not in known
    ]


def _names(document: Mapping[str, Any]) -> list[str]:
    """Return the names of the models."""
    # Read from the document: other mistakes in a model must not hide those that concern its name.
    default = ModelConfig.model_fields["name"].default
    models = document.get("models", [{}])
    models = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return [str(model.get("name", default)) for model in models]
