"""The whole configuration: reads the file and the environment, and reports all mistakes in them at once."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError
from yarl import URL

from bot.config.connection import DiscordConfig
from bot.config.environment import Overlaid, Variable, overlaid
from bot.config.fleet import FleetConfig
from bot.config.mistakes import Loc, dotted, quoted, sentences
from bot.config.models import EngineSection, ModelConfig
from bot.config.operators import LogConfig, TracesConfig, UsageConfig, WebConfig
from bot.config.page import PageConfig
from bot.config.people import LimitsConfig, PicturesConfig, SessionsConfig
from bot.config.policy import ANY, PolicyConfig
from bot.config.prompts import PromptsConfig
from bot.config.provenance import ProvenanceConfig
from bot.config.queue import QueueConfig, RetentionConfig
from bot.config.section import Section, leaves_unencrypted
from bot.config.text_files import read_text_file
from bot.domain.errors import ConfigurationError
from bot.telemetry.redaction import redact

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
    page: PageConfig = PageConfig()
    log: LogConfig = LogConfig()
    traces: TracesConfig = TracesConfig()

    @classmethod
    def load(cls, path: str | Path | None, environ: Mapping[str, str] | None = None) -> Config:
        """Return the configuration that `read` returns; raises ConfigurationError."""
        return cls.read(path, environ).config

    @classmethod
    def read(cls, path: str | Path | None, environ: Mapping[str, str] | None = None) -> Reading:
        """Read the TOML file at `path`, if any, and the variables of `environ`, which have priority.

        Raises ConfigurationError, which lists every mistake in both.
        """
        document = {} if path is None else _document(Path(path))
        found = overlaid(document, os.environ if environ is None else environ, cls)
        with_variables = found.variables or found.mistakes or path is None
        sources = [*([] if path is None else [str(path)]), *(["the environment"] if with_variables else [])]
        return Reading(config=cls._checked(found, " with ".join(sources)), variables=found.variables)

    @classmethod
    def say_again(cls, message: str, environ: Mapping[str, str] | None = None) -> str:
        """Return the message of an error, where each line may be about a key, in the words of `read`.

        If a variable of `environ` sets the key, the line names the variable, and shows no text of it.
        """
        found = overlaid({}, os.environ if environ is None else environ, cls)
        return "\n".join(map(found.say_again, message.splitlines()))

    @classmethod
    def parse(cls, document: Mapping[str, Any], *, name: str = "the configuration") -> Config:
        """Check a parsed TOML file; `name` is the file's name in the ConfigurationError."""
        return cls._checked(Overlaid(document=dict(document)), name)

    @classmethod
    def _checked(cls, found: Overlaid, name: str) -> Config:
        document = found.document
        mistakes = [*found.mistakes, *(redact(found.say(*each)) for each in _mistakes_in_names(document))]
        try:
            # Through JSON, pydantic's strict mode takes a list for a tuple, but neither "2" nor true for 2.
            config = cls.model_validate_json(json.dumps(document, default=str), strict=True)
        except ValidationError as error:
            mistakes += sentences(error, cls, found.say)
        if mistakes:
            raise ConfigurationError("\n".join([f"{name} cannot be used:", *mistakes]))
        return config

    @property
    def as_toml(self) -> str:
        """A TOML file with the keys that are set, for another machine; it may hold secrets."""
        document = self.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        return "".join(f"{key} = {toml_value(value)}\n" for key, value in document.items())

    @property
    def warnings(self) -> list[str]:
        """One sentence for each address to which secrets leave this machine without encryption.

        And one for each model in a policy that this configuration does not offer; another process may offer
        it.
        """
        sent = {
            "discord.api_url": (self.discord.api_url, "the bot's token and what people type"),
            "discord.gateway_url": (self.discord.gateway_url, "the bot's token and what people type"),
            "queue.artifacts": (self.queue.artifacts, "people's pictures"),
        }
        known = {ANY, *(model.name for model in self.models)}
        policies = {"policy": self.policy.models, "policy.bounds": self.policy.bounds.models}
        unknown = [
            f"{section}.models: there is no model {quoted(name)} here."
            for section, names in policies.items()
            for name in names
            if name not in known
        ]
        return [
            *(
                f"{key} is not encrypted: on the way to {URL(address).host}, others can read {what}."
                for key, (address, what) in sent.items()
                if leaves_unencrypted(address)
            ),
            *map(self.say_again, unknown),
        ]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A configuration, and the variables of the environment that parts of it come from."""

    config: Config
    variables: tuple[Variable, ...]


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text_file(path))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # a TOMLDecodeError is one
        raise ConfigurationError(f"{path} is not TOML: {error}.") from None


def toml_value(value: object) -> str:
    """Return a JSON value as TOML on one line."""
    if isinstance(value, dict):
        pairs = (f"{toml_value(str(key))} = {toml_value(each)}" for key, each in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    # TOML writes texts, numbers, true and false as JSON does, except for this character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _mistakes_in_names(document: Mapping[str, Any]) -> Iterator[tuple[Loc, str]]:
    """Give what is wrong with the names of models and groups of the fleet, and where."""
    # Read from the document: other mistakes in a model must not hide those that concern its name.
    models = _names(document.get("models", [{}]), default=ModelConfig.model_fields["name"].default)
    yield from _repeated(models, ("models",))
    fleet = document.get("fleet")
    groups = fleet.get("groups") if isinstance(fleet, dict) else None
    yield from _repeated(_names(groups), ("fleet", "groups"))
    for index, group in enumerate(groups if isinstance(groups, list) else []):
        wanted = group.get("models") if isinstance(group, dict) else None
        for name in wanted if isinstance(wanted, list) else []:
            if isinstance(name, str) and name not in models.values():
                yield ("fleet", "groups", index, "models"), f"there is no model {quoted(name)}"


def _names(tables: object, *, default: str = "") -> dict[int, str]:
    """Return the names of tables by their indices, without those that have none."""
    found = enumerate(tables if isinstance(tables, list) else [])
    names = {index: str(table.get("name", default)) for index, table in found if isinstance(table, dict)}
    return {index: name for index, name in names.items() if name}


def _repeated(names: Mapping[int, str], tables: Loc) -> Iterator[tuple[Loc, str]]:
    first: dict[str, int] = {}
    for index, name in names.items():
        if index != first.setdefault(name, index):
            other = dotted((*tables, first[name]))
            yield (*tables, index, "name"), f"{quoted(name)} is the name of {other} too"
