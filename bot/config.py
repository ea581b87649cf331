"""The configuration: one TOML file, read once, every mistake named before anything starts.

Each section is a frozen pydantic model whose defaults are the product's defaults; `Config()` alone is
the demo. Secrets are not in the file: the token comes from the environment or from a file of its own.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from yarl import URL

from bot.config_addresses import (
    check_api_url,
    check_database,
    check_gateway_url,
    is_loopback,
    readable_on_the_way,
)
from bot.config_mistakes import Impossible, sentences
from bot.errors import ConfigurationError
from bot.token_files import checked_token, read_token_file
from sdjax_engine.request import MAX_GUIDANCE_SCALE, MAX_STEPS, Offer, Sampler

MIN_SIDE, MAX_SIDE, SIDE_MULTIPLE = 64, 2048, 8
MAX_PROMPT_CHUNKS, MAX_LORA_RANK = 8, 4096
CHECKPOINTS_OWN = frozenset({"sizes", "num_inference_steps", "guidance_scale", "sampler"})
LORA_NAME = r"[\w.+-]{1,60}"
Snowflake = Annotated[int, Field(ge=1, lt=2**63)]
MAX_SHARDS = 100_000
MAX_MODELS = 25  # as many as Discord shows in one list of choices


def _check_guild_ids(values: tuple[int, ...]) -> tuple[int, ...]:
    wrong = [f"{value} is not a server id" for value in values if not 0 < value < 2**63]
    repeated = [f"{value} is named twice" for value in sorted({v for v in values if values.count(v) > 1})]
    if wrong or repeated:
        raise Impossible(*wrong, *repeated)
    return values


def _check_sizes(values: tuple[str, ...]) -> tuple[str, ...]:
    mistakes = [mistake for value in values for mistake in _mistakes_in_size(value)]
    mistakes += [f"{value} is named twice" for value in sorted({v for v in values if values.count(v) > 1})]
    if mistakes:
        raise Impossible(*mistakes)
    return values


def _mistakes_in_size(value: str) -> list[str]:
    width, cross, height = value.partition("x")
    if not (cross and width.isascii() and width.isdigit() and height.isascii() and height.isdigit()):
        return [f"“{value}” is not a size: write width x height in pixels, such as 512x512"]
    wanted = f"a multiple of {SIDE_MULTIPLE} from {MIN_SIDE} to {MAX_SIDE}"
    return [
        f"{value} cannot be painted: {side} is not {wanted}"
        for side in dict.fromkeys((int(width), int(height)))
        if side % SIDE_MULTIPLE or not MIN_SIDE <= side <= MAX_SIDE
    ]


def _check_loras(values: dict[str, str]) -> dict[str, str]:
    names = [name.casefold() for name in values]
    mistakes = [
        f"“{name}” is no name for a LoRA: up to 60 letters, digits and . _ + - only"
        for name in values
        if not re.fullmatch(LORA_NAME, name)
    ]
    mistakes += [f"“{name}” is named twice" for name in sorted({n for n in names if names.count(n) > 1})]
    mistakes += [f"the LoRA “{name}” has no file" for name, file in values.items() if not file.strip()]
    if mistakes:
        raise Impossible(*mistakes)
    return values


def _check_roles(values: tuple[RoleConfig, ...]) -> tuple[RoleConfig, ...]:
    roles = Counter(value.role for value in values)
    if repeated := [f"the role {role} is named twice" for role, count in roles.items() if count > 1]:
        raise Impossible(*repeated)
    return values


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DiscordConfig(_Section):
    """How the bot reaches Discord, and in which language it answers."""

    token_file: str = ""
    api_url: Annotated[str, AfterValidator(check_api_url)] = "https://discord.com/api/v10"
    gateway_url: Annotated[str, AfterValidator(check_gateway_url)] = "wss://gateway.discord.gg/"
    shard_count: Annotated[int, Field(ge=0, le=MAX_SHARDS)] = 0
    shard_ids: tuple[int, ...] = ()
    guild_ids: Annotated[tuple[int, ...], AfterValidator(_check_guild_ids)] = ()
    language: Literal["", "en", "ko", "zh", "ar"] = ""
    languages: dict[Snowflake, Literal["en", "ko", "zh", "ar"]] = {}

    @field_validator("shard_ids")
    @classmethod
    def _within_the_count(cls, values: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        count = info.data.get("shard_count", 0)
        if values and not count:
            raise Impossible("which of how many? Say shard_count as well")
        wrong = [
            f"{value} is none of the {count} shards, whose numbers begin at 0"
            for value in values
            if not 0 <= value < count
        ]
        repeated = [f"{value} is named twice" for value in sorted({v for v in values if values.count(v) > 1})]
        if wrong or repeated:
            raise Impossible(*wrong, *repeated)
        return values

    def read_token(self, environ: Mapping[str, str] | None = None) -> str:
        """The bot's token from `token_file`, else from `DISCORD_TOKEN`; `ConfigurationError` without one."""
        if self.token_file:
            return read_token_file(self.token_file, key="discord.token_file")
        token = (os.environ if environ is None else environ).get("DISCORD_TOKEN", "").strip()
        if not token:
            raise ConfigurationError(
                "There is no token: set DISCORD_TOKEN, or name a file in discord.token_file."
            )
        return checked_token(token, "DISCORD_TOKEN")


class ModelConfig(_Section):
    """One checkpoint, and what people may ask of it; the first size is the default."""

    name: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[\w.+-]+$")] = "demo"
    checkpoint: Annotated[str, Field(min_length=1)] = "demo"
    revision: str = ""
    variant: str = ""
    sizes: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_check_sizes)] = ("128x128",)
    num_inference_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = 20
    guidance_scale: Annotated[float, Field(ge=0, le=MAX_GUIDANCE_SCALE)] = 2.2
    sampler: Sampler = Sampler.DDIM
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = MAX_STEPS
    prompt_chunks: Annotated[int, Field(ge=1, le=MAX_PROMPT_CHUNKS)] = 3
    safety_checker: bool = True
    flagged: Literal["withhold", "spoiler", "show"] = "withhold"
    flagged_age_restricted: Literal["withhold", "spoiler", "show"] = "spoiler"
    loras: Annotated[dict[str, str], AfterValidator(_check_loras)] = {}
    lora_rank: Annotated[int, Field(ge=1, le=MAX_LORA_RANK)] = 64
    _samplers: tuple[Sampler, ...] = ()  # those that suit the checkpoint, once it was read

    @field_validator("revision", "variant")
    @classmethod
    def _only_for_fetched_checkpoints(cls, value: str, info: ValidationInfo) -> str:
        if value and info.data.get("checkpoint") == "demo":
            raise Impossible(f"the bundled checkpoint “demo” has no {info.field_name}")
        return value

    @field_validator("max_steps")
    @classmethod
    def _covers_the_default(cls, value: int, info: ValidationInfo) -> int:
        if info.data.get("num_inference_steps", 0) > value:
            raise Impossible(
                f"{value} is less than num_inference_steps = {info.data['num_inference_steps']}, the default"
            )
        return value

    @property
    def unsaid(self) -> frozenset[str]:
        """What nobody has chosen, and the checkpoint's own configurations decide; the demo's are here."""
        if self.checkpoint == "demo":
            return frozenset()
        return CHECKPOINTS_OWN - self.model_fields_set

    def settled(self, own: Offer) -> ModelConfig:
        """This model with its checkpoint's `own` offer where nobody has chosen, and with its samplers."""
        values = {
            "sizes": tuple(f"{width}x{height}" for width, height in own.sizes),
            "num_inference_steps": min(own.num_inference_steps, self.max_steps),
            "guidance_scale": own.guidance_scale,
            "sampler": own.sampler,
        }
        settled = self.model_copy(update={name: values[name] for name in self.unsaid})
        settled._samplers = own.samplers
        return settled

    @property
    def offer(self) -> Offer:
        """What this model takes, in the engine's terms."""
        return Offer(
            model=self.name,
            sizes=tuple(_read_size(size) for size in self.sizes),
            num_inference_steps=self.num_inference_steps,
            guidance_scale=self.guidance_scale,
            sampler=self.sampler,
            max_steps=self.max_steps,
            prompt_chunks=self.prompt_chunks,
            loras=tuple(self.loras),
            samplers=self._samplers,
        )


def _read_size(size: str) -> tuple[int, int]:
    width, height = size.split("x")
    return int(width), int(height)


class EngineSection(_Section):
    """How the engine runs on this machine's devices."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    seats_per_device: Annotated[int, Field(ge=0, le=256)] = 0
    cpu_devices: Annotated[int, Field(ge=0, le=256)] = 0
    device_memory_gib: Annotated[float, Field(ge=0, le=4096)] = 0.0
    stuck_seconds: Annotated[float, Field(ge=0, le=86400)] = 300.0
    cache_dir: str = "var/cache"
    cache_group: bool = False


class RoleConfig(_Section):
    """How much more, or less, is painted for the members of a role while others wait too."""

    role: Snowflake
    weight: Annotated[float, Field(gt=0, le=100)]


class QueueConfig(_Section):
    """Where waiting work and finished pictures are kept, how much may wait, and who gets more."""

    database: Annotated[str, AfterValidator(check_database)] = "sqlite+aiosqlite:///var/sdjax.sqlite3"
    artifacts: Annotated[str, Field(min_length=1)] = "var/artifacts"
    lease_seconds: Annotated[float, Field(ge=5, le=3600)] = 60.0
    drain_seconds: Annotated[float, Field(ge=0, le=3600)] = 60.0
    max_waiting_per_user: Annotated[int, Field(ge=1)] = 60
    max_waiting: Annotated[int, Field(ge=1, validate_default=True)] = 2000
    server_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    kept_share: Annotated[float, Field(ge=0, le=0.9)] = 0.1
    full_share_images: Annotated[int, Field(ge=1)] = 40
    roles: Annotated[tuple[RoleConfig, ...], AfterValidator(_check_roles)] = ()

    @field_validator("max_waiting")
    @classmethod
    def _covers_one_person(cls, value: int, info: ValidationInfo) -> int:
        if info.data.get("max_waiting_per_user", 0) > value:
            raise Impossible(
                f"{value} is less than max_waiting_per_user = {info.data['max_waiting_per_user']}"
            )
        return value


class PicturesConfig(_Section):
    """How much of the pictures that people send is looked at."""

    max_bytes: Annotated[int, Field(ge=1024)] = 20 * 1024 * 1024
    max_pixels: Annotated[int, Field(ge=64 * 64, le=89_000_000)] = 25_000_000
    waiting_files: Annotated[int, Field(ge=1, le=1000)] = 24
    decode_memory_mib: Annotated[int, Field(ge=128, le=65536)] = 512
    decode_seconds: Annotated[int, Field(ge=1, le=600)] = 10


class LimitsConfig(_Section):
    """How often people and servers may ask within a minute; 0 is without bound."""

    requests_per_minute: Annotated[int, Field(ge=0, le=100_000)] = 30
    server_requests_per_minute: Annotated[int, Field(ge=0, le=100_000)] = 300
    files_per_minute: Annotated[int, Field(ge=0, le=100_000)] = 6
    server_files_per_minute: Annotated[int, Field(ge=0, le=100_000)] = 30


class RetentionConfig(_Section):
    """How long files of pictures and rows of ended jobs are kept; 0 is for ever, or without bound."""

    picture_days: Annotated[float, Field(ge=0, le=36500)] = 30.0
    pictures_gib: Annotated[float, Field(ge=0, le=1_000_000)] = 20.0
    job_days: Annotated[float, Field(ge=0, le=36500, validate_default=True)] = 365.0
    left_server_days: Annotated[float, Field(ge=0, le=36500)] = 30.0

    @field_validator("job_days")
    @classmethod
    def _covers_the_pictures(cls, value: float, info: ValidationInfo) -> float:
        pictures = info.data.get("picture_days", 0.0)
        if value and value < pictures:
            raise Impossible(
                f"{value:g} is less than picture_days = {pictures:g}: jobs outlive their pictures"
            )
        return value


class WebConfig(_Section):
    """Where operators find metrics and health; port 0: nowhere. An empty host is the loopback's."""

    host: str = ""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    token_file: Annotated[str, Field(validate_default=True)] = ""

    @field_validator("token_file")
    @classmethod
    def _needed_beyond_the_loopback(cls, value: str, info: ValidationInfo) -> str:
        host = info.data.get("host", "")
        if info.data.get("port") and not value and not is_loopback(host):
            raise Impossible(
                f"others than this machine reach {host}, so metrics and health need a token: write a long "
                "random word into a file, and its name here"
            )
        return value

    def read_token(self) -> str | None:
        """The token that the pages ask for; None where they ask for none. Raises ConfigurationError."""
        return read_token_file(self.token_file, key="web.token_file") if self.token_file else None


class LogConfig(_Section):
    """How much the bot says about its work, and in which form."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Config(_Section):
    """The whole configuration."""

    discord: DiscordConfig = DiscordConfig()
    models: Annotated[tuple[ModelConfig, ...], Field(min_length=1, max_length=MAX_MODELS)] = (ModelConfig(),)
    engine: EngineSection = EngineSection()
    queue: QueueConfig = QueueConfig()
    pictures: PicturesConfig = PicturesConfig()
    limits: LimitsConfig = LimitsConfig()
    retention: RetentionConfig = RetentionConfig()
    web: WebConfig = WebConfig()
    log: LogConfig = LogConfig()

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """Read the TOML file at `path`; `ConfigurationError` lists everything that is wrong with it."""
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
        """Check what a TOML file said; `name` is how the error calls the file."""
        mistakes = _repeated_models(document)
        try:
            # By way of JSON: pydantic's strict mode then takes lists for tuples, but no "2" or true for 2.
            config = cls.model_validate_json(json.dumps(document, default=str), strict=True)
        except ValidationError as error:
            mistakes += sentences(error, cls)
        if mistakes:
            raise ConfigurationError("\n".join([f"{name} cannot be used:", *mistakes]))
        return config

    @property
    def doubts(self) -> list[str]:
        """What works and is hardly meant: a sentence for each address where others can read what is sent."""
        told = {
            "discord.api_url": (self.discord.api_url, "the bot's token and what people type"),
            "discord.gateway_url": (self.discord.gateway_url, "the bot's token and what people type"),
            "queue.artifacts": (self.queue.artifacts, "people's pictures"),
        }
        return [
            f"{key} is not encrypted: on the way to {URL(address).host}, others can read {what}."
            for key, (address, what) in told.items()
            if readable_on_the_way(address)
        ]


def _repeated_models(document: Mapping[str, Any]) -> list[str]:
    """Looked for in the document itself, so that other mistakes in a model do not hide it."""
    models = document.get("models")
    models = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    default = ModelConfig.model_fields["name"].default
    names = Counter(str(model.get("name", default)) for model in models)
    return [f"models: {count} models are called “{name}”." for name, count in names.items() if count > 1]
