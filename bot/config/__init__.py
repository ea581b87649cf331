"""The configuration: one TOML file and the environment. Every mistake is reported before anything starts.

Each section is a frozen pydantic model with the product's defaults, in the module of its group; `Config()`
alone is the demo. Secrets need not be in the file: they come from the environment or from files of their own.
"""

from bot.config.config import MAX_MODELS as MAX_MODELS
from bot.config.config import Config as Config
from bot.config.config import Reading as Reading
from bot.config.connection import DiscordConfig as DiscordConfig
from bot.config.models import EngineSection as EngineSection
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
