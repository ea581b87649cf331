"""The configuration: one TOML file, read once. Every mistake in it is reported before anything starts.

Each section is a frozen pydantic model with the product's defaults, in the module of its group; `Config()`
alone is the demo. Secrets are not in the file: a token comes from the environment or from a file of its own.
"""

from bot.config.config import MAX_MODELS as MAX_MODELS
from bot.config.config import Config as Config
from bot.config.connection import DiscordConfig as DiscordConfig
from bot.config.engine import EngineSection as EngineSection
from bot.config.models import ModelConfig as ModelConfig
from bot.config.operators import LogConfig as LogConfig
from bot.config.operators import WebConfig as WebConfig
from bot.config.people import LimitsConfig as LimitsConfig
from bot.config.people import PicturesConfig as PicturesConfig
from bot.config.prompts import PromptsConfig as PromptsConfig
from bot.config.provenance import ProvenanceConfig as ProvenanceConfig
from bot.config.queue import QueueConfig as QueueConfig
from bot.config.queue import RetentionConfig as RetentionConfig
from bot.config.queue import RoleConfig as RoleConfig
