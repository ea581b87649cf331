"""What the configuration says of the groups: what their units run, and how many there may be; no I/O."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bot.config import Config
from bot.config.fleet import GroupConfig
from bot.config.mistakes import quoted
from bot.fleet.launch import Launch
from bot.fleet.sizing import Size
from bot.store.database.postgresql_server import has_password


def launches(config: Config, text: str) -> dict[str, Launch]:
    """Return the launch of each group, by name; `text` is the file that `config` was read from."""
    return {group.name: _launch(config, group, text) for group in config.fleet.groups}


def sizes(config: Config) -> tuple[Size, ...]:
    """Return the bounds of the groups of workers, in order."""
    return tuple(
        Size(
            group=group.name,
            models=frozenset(_models(config, group)),
            accelerator=group.accelerator_class,
            least=group.least,
            most=group.most,
            idle_seconds=60 * group.idle_minutes,
            target_seconds=group.target_seconds,
        )
        for group in config.fleet.groups
        if group.role == "worker"
    )


def painted_models(config: Config) -> list[str]:
    """Return the names of the models that units load; one may be there twice."""
    workers = [group for group in config.fleet.groups if group.role == "worker"]
    return [name for group in workers for name in _models(config, group)]


def mistakes(config: Config) -> list[str]:
    """Return a sentence for each value that processes on several machines cannot share."""
    found = []
    if not config.fleet.groups:
        found.append("fleet.groups: there is no group; write at least one [[fleet.groups]].")
    if not config.queue.database.startswith("postgresql"):
        found.append("queue.database: several machines share a queue on PostgreSQL only.")
    if config.web.port:
        found.append("web.port: several processes on one machine cannot have one port; write 0.")
    for key, path in _paths(config):
        if path and "://" not in path and not Path(path).expanduser().is_absolute():
            found.append(f"{key}: {quoted(path)} means another place on each machine; write the whole path.")
    return found


def warnings(config: Config) -> list[str]:
    """Return a sentence for each secret that Ray would keep."""
    if not has_password(config.queue.database):
        return []
    return [
        "queue.database has a password, and Ray keeps the configuration, maybe on the head's disk: leave "
        "the password out, and name it to every machine with PGPASSFILE or PGPASSWORD before “ray start”."
    ]


def _paths(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the paths that units read or write, each with its key."""
    yield "queue.artifacts", config.queue.artifacts
    yield "engine.cache_dir", config.engine.cache_dir
    yield "prompts.styles_file", config.prompts.styles_file  # every process reads it
    for number, model in enumerate(config.models, 1):
        parts = ("checkpoint", "vae", "denoiser", "picture_classifier", "preview_decoder")
        named: list[tuple[str, str]] = [
            (key, getattr(model, key)) for key in (*parts, "image_prompt", "image_encoder")
        ]
        named += [("loras", file) for file in model.loras.values()]
        named += [("embeddings", file) for file in model.embeddings.values()]
        named += [("controlnets", net.source) for net in model.controlnets.values()]
        for key, path in named:
            if path.startswith(".") or path.endswith((".safetensors", ".ckpt")):  # else a name on a hub
                yield f"models[{number}].{key}", path
    if any(group.role == "front" for group in config.fleet.groups):
        yield "discord.token_file", config.discord.token_file
        yield "prompts.keywords_file", config.prompts.keywords_file
        provenance = config.provenance
        if provenance.watermark.startswith("."):  # else a name on a hub
            yield "provenance.watermark", provenance.watermark
        if provenance.certificate:
            yield "provenance.certificate", provenance.certificate
            yield "provenance.private_key", provenance.private_key
        elif provenance.sign:
            yield "provenance.folder", provenance.folder


def _launch(config: Config, group: GroupConfig, text: str) -> Launch:
    arguments: tuple[str, ...] = ()
    if group.role == "worker":
        only = [argument for name in group.models for argument in ("--only", name)]
        arguments = (*only, "--accelerator", group.accelerator_class)
    tpus: Mapping[str, float] = {"TPU": float(group.tpus)} if group.tpus else {}
    return Launch(
        group=group.name,
        generation=_generation(config, group),
        command=group.command or (sys.executable, "-m", "bot"),
        role=group.role,
        arguments=arguments,
        config=text,
        cores=group.cores,
        gpus=group.gpus,
        memory=int(group.memory_gib * 2**30),
        resources={**tpus, **group.custom},
    )


def _generation(config: Config, group: GroupConfig) -> str:
    """Return a name for what the group's units run; its bounds may change without a new generation."""
    bounds = {"least", "most", "idle_minutes", "target_seconds"}
    facts: Sequence[object] = (
        config.model_dump(mode="json", exclude={"fleet"}),
        group.model_dump(mode="json", exclude=bounds),
    )
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


def _models(config: Config, group: GroupConfig) -> Sequence[str]:
    return group.models or [model.name for model in config.models]
