"""ComfyUI's graphs: `prompt`, the form sent to its server, and `workflow`, the form of its editor.

A graph is read backwards from its sampler: model ◄── LoRAs ◄── checkpoint, prompts, empty latent image.
Several samplers are read where each starts from the picture of the one before; the first one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bot.generation_data.comfyui_editor import prompt_of
from bot.generation_data.data import (
    MAX_NAME,
    GenerationData,
    NoGenerationData,
    Tool,
    item,
    listed,
    merged,
    name_of,
    number,
    whole,
)
from sdjax_engine.request import Lora

MAX_NODES = 2000
MAX_LINKS = 100  # followed from one input

SAMPLERS = ("KSampler", "KSamplerAdvanced", "SamplerCustom", "KSampler (Efficient)")
OUTPUTS = ("SaveImage", "PreviewImage", "SaveAnimatedWEBP", "SaveImageWebsocket")
EMPTY_LATENTS = ("EmptyLatentImage", "EmptySD3LatentImage")
CHECKPOINTS = ("ckpt_name", "unet_name", "model_name")  # inputs of loaders that name the checkpoint
LORAS = ("LoraLoader", "LoraLoaderModelOnly")
VALUES = ("value", "seed", "text", "string", "int", "float", "number", "noise_seed", "Text", "String")
CONDITIONINGS = ("conditioning", "positive", "conditioning_1", "input", "any")
"""Inputs of nodes that take one conditioning and pass it on."""
LATENTS = ("samples", "latent", "latent_image", "pixels", "image", "upscale_image", "input", "any")
"""Inputs of nodes that take a latent image or a picture and pass it on."""

Node = Mapping[str, Any]


def is_prompt(found: Mapping[str, Any]) -> bool:
    """Return whether the JSON object is a `prompt`: nodes by their ids."""
    return any(isinstance(node, dict) and "class_type" in node for node in found.values())


def is_workflow(found: Mapping[str, Any]) -> bool:
    """Return whether the JSON object is a `workflow` of the editor."""
    return isinstance(found.get("nodes"), list)


def read_workflow(found: Mapping[str, Any]) -> GenerationData:
    """Return what a `workflow` says; raises NoGenerationData where it is not linear."""
    return read_prompt(prompt_of(found))


def read_prompt(found: Mapping[str, Any]) -> GenerationData:
    """Return what a `prompt` says; raises NoGenerationData where it is not linear."""
    if len(found) > MAX_NODES:
        raise NoGenerationData("generation_data_graph")
    return _Graph(found).data()


class _Graph:
    """The nodes of one `prompt`, and what was met in them that is not understood."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._nodes: dict[str, Node] = {
            str(key): node
            for key, node in found.items()
            if isinstance(node, dict) and isinstance(node.get("inputs"), dict)
        }
        self._unread: list[str] = []

    def data(self) -> GenerationData:
        """Return the generation data of the first sampler."""
        sampler = self._first_sampler()
        positive, negative = self._words(sampler, "positive"), self._words(sampler, "negative")
        loras, model = self._model(sampler)
        width, height, started = self._latent(sampler)
        layer = self._clip_layer(sampler)
        denoise = number(self._of_sampler(sampler, "denoise"))
        return GenerationData(
            tool=Tool.COMFYUI,
            prompt=positive,
            negative_prompt=negative,
            width=width,
            height=height,
            steps=whole(self._of_sampler(sampler, "steps")),
            sampler=self._name(sampler, "sampler_name"),
            schedule=self._name(sampler, "scheduler"),
            guidance=number(self._setting(sampler, "cfg")),
            seed=whole(self._first(sampler, ("seed", "noise_seed"))),
            model=model,
            loras=loras,
            strength=denoise if started else None,
            clip_skip=None if layer is None else -layer,
            started=started,
            unread=listed(self._unread),
        )

    def _first_sampler(self) -> Node:
        """Return the sampler that starts the chain; raises NoGenerationData unless there is one chain."""
        found = [key for key, node in self._nodes.items() if _type(node) in SAMPLERS]
        reached = self._reached()
        used = [key for key in found if key in reached] or found
        earlier = self._earlier_samplers(used)
        firsts = [key for key in used if earlier[key] is None]
        followed = [key for key in earlier.values() if key is not None]
        if len(firsts) != 1 or len(set(followed)) != len(followed):
            raise NoGenerationData("generation_data_graph")
        self._unread += [item(_type(self._nodes[key])) for key in used if key != firsts[0]]
        return self._nodes[firsts[0]]

    def _reached(self) -> set[str]:
        """Return the ids of the nodes that some saved picture depends on; empty where none is saved."""
        waiting = [key for key, node in self._nodes.items() if _type(node) in OUTPUTS]
        reached: set[str] = set()
        while waiting:
            key = waiting.pop()
            if key in reached or key not in self._nodes:
                continue
            reached.add(key)
            links = map(_link, self._nodes[key]["inputs"].values())
            waiting += [link for link in links if link is not None]
        return reached

    def _earlier_samplers(self, keys: Iterable[str]) -> dict[str, str | None]:
        """Return the sampler whose picture each of these samplers continues; each node is visited once."""
        found: dict[str, str | None] = {}  # by the nodes that a latent image comes through

        def earlier(link: str | None) -> str | None:
            path: list[str] = []
            while link is not None and link in self._nodes and link not in found:
                path.append(link)
                found[link] = None  # a ring leads to no sampler
                node = self._nodes[link]
                if _type(node) in SAMPLERS:
                    found[link] = link
                    break
                link = next(filter(None, (_link(node["inputs"].get(name)) for name in LATENTS)), None)
            sampler = None if link is None else found.get(link)
            found.update(dict.fromkeys(path, sampler))
            return sampler

        starts = {key: earlier(_link(self._nodes[key]["inputs"].get("latent_image"))) for key in keys}
        return {key: None if sampler == key else sampler for key, sampler in starts.items()}

    def _node(self, value: Any) -> Node | None:
        link = _link(value)
        return None if link is None else self._nodes.get(link)

    def _setting(self, node: Node, name: str) -> Any:
        """Return an input's value, through the links to nodes that only hold a value."""
        value = node["inputs"].get(name)
        for _ in range(MAX_LINKS):
            source = self._node(value)
            if source is None:
                return None if isinstance(value, list | dict) else value
            inputs = source["inputs"]
            value = next((inputs[each] for each in (name, *VALUES) if each in inputs), None)
        return None

    def _first(self, node: Node, names: tuple[str, ...]) -> Any:
        return next((self._setting(node, name) for name in names if name in node["inputs"]), None)

    def _of_sampler(self, sampler: Node, name: str) -> Any:
        """Return a setting of the sampler; SamplerCustom has some of them in linked nodes."""
        sources = (sampler, *(self._node(sampler["inputs"].get(link)) for link in ("sampler", "sigmas")))
        found = (self._setting(node, name) for node in sources if node is not None and name in node["inputs"])
        return next(found, None)

    def _name(self, sampler: Node, name: str) -> str:
        value = self._of_sampler(sampler, name)
        return value[:MAX_NAME] if isinstance(value, str) else ""

    def _words(self, sampler: Node, name: str) -> str:
        """Return the text of a prompt; raises NoGenerationData where several are combined."""
        node = self._node(sampler["inputs"].get(name))
        for _ in range(MAX_LINKS):
            if node is None or _type(node) == "ConditioningZeroOut":
                return ""
            if _type(node).startswith("CLIPTextEncode"):
                return self._encoded(node)
            if "Combine" in _type(node) and sum(map(_is_conditioning, node["inputs"])) > 1:
                raise NoGenerationData("generation_data_graph")
            inputs = node["inputs"]
            through = name if _link(inputs.get(name)) else None
            through = through or next((each for each in CONDITIONINGS if _link(inputs.get(each))), None)
            if through is None or "conditioning_2" in inputs or "conditioning_to" in inputs:
                raise NoGenerationData("generation_data_graph")
            if _type(node) != "Reroute":
                self._unread.append(item(_type(node)))
            node = self._node(inputs[through])
        raise NoGenerationData("generation_data_graph")

    def _encoded(self, node: Node) -> str:
        texts = [self._setting(node, name) for name in ("text", "text_g", "text_l")]
        found = list(dict.fromkeys(text.strip() for text in texts if isinstance(text, str)))
        if _type(node) != "CLIPTextEncode" and len(found) > 1:
            self._unread.append(item("text_l", found[1]))
        return found[0] if found else ""

    def _model(self, sampler: Node) -> tuple[tuple[Lora, ...], str]:
        """Return the LoRAs, in the order in which they are applied, and the checkpoint's name."""
        loras: list[Lora] = []
        node = self._node(sampler["inputs"].get("model"))
        for _ in range(MAX_LINKS):
            if node is None:
                break
            inputs = node["inputs"]
            if _type(node) in LORAS:
                weight = number(self._setting(node, "strength_model"))
                name = name_of(self._setting(node, "lora_name"))
                loras.append(Lora(name=name, weight=1.0 if weight is None else weight))
            elif (file := next((each for each in CHECKPOINTS if each in inputs), None)) is not None:
                return merged(reversed(loras)), name_of(self._setting(node, file))
            elif _type(node) != "Reroute":
                self._unread.append(item(_type(node)))
            node = self._node(inputs.get("model") or inputs.get("input") or inputs.get("any"))
        return merged(reversed(loras)), ""

    def _clip_layer(self, sampler: Node) -> int | None:
        """Return the layer that CLIPSetLastLayer chooses for the prompt, such as -2."""
        node = self._node(sampler["inputs"].get("positive"))
        for _ in range(MAX_LINKS):
            if node is None:
                return None
            if _type(node) == "CLIPSetLastLayer":
                return whole(self._setting(node, "stop_at_clip_layer"))
            inputs = node["inputs"]
            node = self._node(
                next(filter(_link, (inputs.get(name) for name in ("clip", *CONDITIONINGS))), None)
            )
        return None

    def _latent(self, sampler: Node) -> tuple[int | None, int | None, bool]:
        """Return the size of the empty latent image, and whether the sampler starts from a picture."""
        node = self._node(sampler["inputs"].get("latent_image"))
        for _ in range(MAX_LINKS):
            if node is None:
                break
            if _type(node) in EMPTY_LATENTS or {"width", "height", "batch_size"} <= node["inputs"].keys():
                return whole(self._setting(node, "width")), whole(self._setting(node, "height")), False
            if "Encode" in _type(node) or "LoadImage" in _type(node):
                return None, None, True
            inputs = node["inputs"]
            names = ("samples", "latent", "latent_image", "input", "any")
            node = self._node(next(filter(_link, (inputs.get(name) for name in names)), None))
        return None, None, False


def _type(node: Node) -> str:
    kind = node.get("class_type")
    return kind if isinstance(kind, str) else ""


def _link(value: Any) -> str | None:
    """Return the id of the node that an input is linked to: `["4", 0]`."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str | int):
        return str(value[0])
    return None


def _is_conditioning(name: str) -> bool:
    return name.startswith("conditioning")
