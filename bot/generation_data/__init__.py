"""Generation data of other tools, and of this bot: what a picture was painted with, as text or in a file.

Pure: no Discord, database or engine. One module reads one format.

read_text ──► own | comfyui | invokeai | a1111      by the keys of its JSON; other texts are a1111
read_picture ──► metadata ──► read_text             the file's texts; no pixels are decoded
fit ──► sampler_names                               generation data + offers ──► options, and what is left out
"""

from bot.generation_data.data import GenerationData, NoGenerationData, Tool
from bot.generation_data.fitting import Difference, Fitted, fit
from bot.generation_data.reading import read_picture, read_text

__all__ = [
    "Difference",
    "Fitted",
    "GenerationData",
    "NoGenerationData",
    "Tool",
    "fit",
    "read_picture",
    "read_text",
]
