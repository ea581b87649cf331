"""The command line. Each command imports the heavy modules that it needs, so that `--help` is quick.

Exit status: 0 success, 1 failure, 2 a mistake in the command or the configuration. An error is one sentence
on stderr.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from bot.cli.backup import backup, restore
from bot.cli.configuration import CONFIG, OWN_CONFIG, READY_FILE, configured, for_worker, tell_ready
from bot.cli.doctor import doctor
from bot.cli.fleet import fleet
from bot.cli.inspect import inspect
from bot.cli.known import known
from bot.cli.page import page, page_link
from bot.cli.parameters import PictureParameter, SizeParameter, VariantParameter
from bot.cli.people import block, blocks, forget, unblock
from bot.cli.progress_bar import step_bar
from bot.cli.setup import setup
from bot.cli.terminal import complain, hand_over, one_line, say, tell_bug
from bot.cli.usage import usage
from bot.domain.errors import BotError, ConfigurationError
from bot.process.memory import collect_rarely
from bot.telemetry.log import flush
from sdjax_engine.errors import EngineClosed, EngineError, InvalidRequest, UnreadableCheckpoint
from sdjax_engine.request import (
    MAX_CONTROL_STRENGTH,
    MAX_GUIDANCE_SCALE,
    MAX_SEED,
    MAX_STEPS,
    ControlType,
    Sampler,
)

if TYPE_CHECKING:
    from bot.config import Config

log = logging.getLogger(__name__)

FAILED, MISTAKE = 1, 2
STUCK = 75  # EX_TEMPFAIL: the devices do not answer this process, but may answer a new one
MAX_VARIANTS = 9


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    try:
        say(f"sdjax-bot {version('sdjax-bot')}")
    except PackageNotFoundError:
        raise BotError("The package is not installed here, so it has no version: run make install.") from None
    context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def commands() -> None:
    """A Discord bot that paints what a community types, on a batched Stable Diffusion engine in JAX."""


@commands.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the page; 0 for any free one.")
@click.option("--once", is_flag=True, help="Stop after the first picture.")
@click.option("--model", "source", help="A checkpoint of yours: its folder, .safetensors file or hub id.")
@OWN_CONFIG
def demo(port: int | None, once: bool, source: str | None, path: Path | None) -> None:
    """Try it all on this machine.

    A Discord of its own, the bot, and a page to use both on; no account and no token are needed. With --model
    or --config the bot paints with your checkpoints: sizes, steps and guidance are the checkpoint's own,
    unless the configuration says others.
    """
    if source is not None and path is not None:
        raise click.UsageError("Say --model or --config, and not both.")
    from bot.cli.demo import demo_config, run_demo
    from bot.config import Config

    own = None if source is None else demo_config(source)
    if path is not None:
        own = Config.load(path)
    run_demo(port=port, once=once, own=own, report=say)


@commands.command()
@CONFIG
def run(path: Path | None) -> None:
    """Run the whole bot: a front and a worker in one process.

    The token is read from DISCORD_TOKEN, or from the file that the configuration names.
    """
    _outlive_early_reloads()
    config = configured(path)
    from bot.app.both import run_both
    from bot.app.named_files import check_start

    check_start(config, os.environ)
    try:
        run_both(config, load=lambda: reread(path))
    except EngineClosed as error:
        _restart(error)


@commands.command()
@CONFIG
@READY_FILE
def front(path: Path | None, ready_file: Path | None) -> None:
    """Run a front: answer people on Discord and deliver what workers paint.

    The token is read as `run` does. Any number of fronts and workers share one queue.
    """
    _outlive_early_reloads()
    config = configured(path)
    from bot.app.front import run_front
    from bot.app.named_files import check_start

    check_start(config, os.environ, models=())
    run_front(config, load=lambda: reread(path, models=()), ready=lambda: tell_ready(ready_file))


@commands.command()
@CONFIG
@READY_FILE
@click.option("--only", multiple=True, metavar="MODEL", help="Paint this model; may be repeated.")
@click.option("--accelerator", default="", help="The class of the accelerators, as in the section engine.")
def worker(path: Path | None, ready_file: Path | None, only: Sequence[str], accelerator: str) -> None:
    """Run a worker: paint what waits in the queue.

    It needs no token and no way to Discord. Any number of fronts and workers share one queue.
    """
    _outlive_early_reloads()
    whole = configured(path)
    config = for_worker(whole, only, accelerator)
    from bot.app.named_files import check_start
    from bot.app.worker import run_worker

    check_start(whole, os.environ, front=False, models=[model.name for model in config.models])
    try:
        run_worker(
            config,
            load=lambda: for_worker(reread(path, front=False, models=only or None), only, accelerator),
            ready=lambda: tell_ready(ready_file),
        )
    except EngineClosed as error:
        _end(str(error))


def _outlive_early_reloads() -> None:
    """Ignore SIGHUP until `Shutdown.listen` handles it; on a terminal, a hang-up still ends the process."""
    # SIGHUP would end the process. systemd counts that as a success, and would not start the bot again.
    if not os.isatty(0):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def reread(path: Path | None, *, front: bool = True, models: Container[str] | None = None) -> Config:
    """Load the configuration again, for a process that runs already.

    Raises ConfigurationError, also for the files that it names: without `front`, only those of a worker; the
    weights of the `models` of these names, None for all.
    """
    from bot.app.named_files import mistakes_in_files, mistakes_in_weights
    from bot.config import Config

    config = Config.load(path)
    mistakes = [*mistakes_in_files(config, front=front), *mistakes_in_weights(config, models)]
    if mistakes:
        raise ConfigurationError("\n".join(mistakes))
    return config


def _end(sentence: str) -> NoReturn:
    """End the process after its engine has died, also while a thread hangs; its supervisor starts another."""
    from bot.process.shutdown import exit_now

    flush()
    complain(one_line(sentence))
    exit_now(STUCK)


def _restart(error: EngineClosed) -> NoReturn:
    """Replace the process after its engine has died: `run` has no supervisor on many machines."""
    from bot.process import restarts

    record = restarts.record(os.environ, now=time.time())
    if record is None:
        _end(f"{error} {restarts.MOST} restarts within an hour have not helped: look at the devices.")
    log.error("%s The bot restarts.", error)
    flush()
    restarts.restart(record)


@commands.command("check-config")
@CONFIG
@click.option(
    "--role",
    type=click.Choice(["run", "front", "worker", "fleet"]),
    default="run",
    show_default=True,
    help="What is started with it: a front needs no checkpoints, a worker no token; a fleet shares the file.",
)
def check_config(path: Path | None, role: str) -> None:
    """Report every mistake in a configuration; if it has none, every mistake in what it names.

    The role fleet includes every mistake that `fleet start` reports.
    """
    from bot.config import Config

    reading = Config.read(path)
    config = reading.config
    from bot.app.named_files import check_start, mistakes_in_opened, mistakes_in_opened_watermark
    from bot.fleet.groups import mistakes, painted_models

    is_front, shared = role != "worker", []
    names = [model.name for model in config.models] if role != "front" else []
    if role == "fleet":
        is_front = any(group.role == "front" for group in config.fleet.groups)
        names, shared = painted_models(config), mistakes(config)
    try:
        check_start(config, os.environ, front=is_front, models=names, others=shared)
    except UnreadableCheckpoint as error:
        raise ConfigurationError(str(error)) from None
    refused = [*mistakes_in_opened(config, names, report=complain)]
    refused += mistakes_in_opened_watermark(config) if is_front else []
    if refused:
        raise ConfigurationError("\n".join(map(one_line, refused)))
    offered = ", ".join(model.name for model in config.models)
    for warning in config.warnings:
        complain(warning)
    if variables := [variable.name for variable in reading.variables]:
        say(f"From the environment: {', '.join(variables)}.")
    say(f"{path or 'The environment'} is in order; it offers {offered}.")


for _command in (
    setup,
    doctor,
    backup,
    restore,
    forget,
    block,
    unblock,
    blocks,
    known,
    inspect,
    fleet,
    usage,
    page,
    page_link,
):
    commands.add_command(_command)


@commands.command()
def devices() -> None:
    """Show the devices that would paint."""
    from sdjax_engine.memory.devices import report, setup_cpu

    setup_cpu(0)
    for line in report():
        say(line)


@commands.command()
@click.argument("prompt")
@click.option("--negative", "negative_prompt", default="", help="What the picture should not show.")
@click.option(
    "--seed", type=click.IntRange(0, MAX_SEED), help="Decides the picture; a random one if left out."
)
@click.option("--variants", type=click.IntRange(1, MAX_VARIANTS), default=1, help="Pictures in a grid.")
@click.option("--steps", "num_inference_steps", type=click.IntRange(1, MAX_STEPS), help="Denoising steps.")
@click.option(
    "--guidance",
    "guidance_scale",
    type=click.FloatRange(0, MAX_GUIDANCE_SCALE),
    help="How closely to follow the prompt.",
)
@click.option("--sampler", type=click.Choice([sampler.value for sampler in Sampler], case_sensitive=False))
@click.option("--size", type=SizeParameter(), help="Width and height in pixels, such as 512x512.")
@click.option(
    "--enlarge", type=SizeParameter(), help="Enlarge the finished picture to this size and refine it."
)
@click.option("--image", type=PictureParameter(), help="A picture to start from.")
@click.option(
    "--mask", type=PictureParameter(), help="What of it to repaint: the white part of this picture."
)
@click.option(
    "--strength",
    type=click.FloatRange(0, 1),
    help="How far to leave the picture to start from, or the one enlarged.",
)
@click.option(
    "--reference",
    "references",
    type=PictureParameter(),
    multiple=True,
    help="A picture that the prompt speaks of, for FLUX.2 klein; up to four.",
)
@click.option("--control", type=PictureParameter(), help="A picture whose composition is kept.")
@click.option(
    "--controlnet",
    metavar="NET",
    help="A ControlNet's folder, file or hub id, or its name in the configuration.",
)
@click.option(
    "--control-type",
    type=click.Choice([each.value for each in ControlType], case_sensitive=False),
    default=ControlType.EDGES.value,
    help="Make edges, lines or a tile of --control, or say what it shows already.",
)
@click.option(
    "--control-strength",
    type=click.FloatRange(0, MAX_CONTROL_STRENGTH),
    default=1.0,
    help="How closely to keep the composition.",
)
@click.option(
    "--image-prompt", type=PictureParameter(), help="A picture as a prompt beside the text, by an IP-Adapter."
)
@click.option(
    "--image-prompt-strength",
    type=click.FloatRange(0, 1),
    default=0.6,
    show_default=True,
    help="How much the picture of --image-prompt works.",
)
@click.option("--ip-adapter", metavar="FILE", help="The IP-Adapter's file, unless the configuration has it.")
@click.option(
    "--image-encoder",
    metavar="ENCODER",
    help="Its image encoder's folder or file, unless it is the folder image_encoder beside it.",
)
@click.option(
    "--lora",
    "loras",
    multiple=True,
    metavar="LORA[:WEIGHT]",
    help="A LoRA's file, or its name in the configuration; may be repeated.",
)
@click.option(
    "--model",
    "source",
    help="A checkpoint's folder or file, or its hub id; with --config, the name of a model there.",
)
@OWN_CONFIG
@click.option("--revision", help="The hub checkpoint's revision.")
@click.option("--variant", type=VariantParameter(), help="The checkpoint's variant of weights, such as fp16.")
@click.option(
    "--dtype", type=click.Choice(["auto", "float32", "bfloat16"]), default="auto", help="Of the networks."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The PNG file to write."
)
@click.option("--sign/--no-sign", default=True, help="Say in the file, signed, that it is AI-generated.")
@click.option("--json", "as_json", is_flag=True, help="Say files, seeds, recipe and timings as JSON.")
def imagine(
    *,
    source: str | None,
    path: Path | None,
    revision: str | None,
    variant: str | None,
    loras: Sequence[str],
    dtype: str,
    output: Path | None,
    as_json: bool,
    sign: bool,
    **options: Any,
) -> None:
    """Paint PROMPT into a file.

    Without Discord; several variants become one grid.
    """
    if not options["prompt"].strip():
        raise InvalidRequest("empty_prompt")
    _check_given(options, configured=path is not None)
    if path is not None and (revision or variant):
        raise click.UsageError(
            "--revision and --variant are for --model alone: the configuration has its own."
        )
    if output is not None:
        _check_output(output)
    from bot.cli import imagine
    from bot.cli.checkpoints import model_named, with_loras
    from bot.config import Config
    from bot.generation_data.lora_tags import tags_in
    from sdjax_engine.weights.files import DEMO

    config = _of_one(source or DEMO, revision, variant) if path is None else Config.load(path)
    model, weights = with_loras(model_named(config, source if path else None), loras)
    if options["control"] and not options["controlnet"] and not model.controlnets:
        raise click.UsageError("--control needs --controlnet: the network that keeps the composition.")
    files = (options["image"], options["control"], options["image_prompt"], *options["references"])
    given: list[Path] = [file for file in files if file] if sign else []
    provenance = config.provenance.model_copy(
        update={"sign": sign, "required": sign, "watermark": "", "stamp": ""}
    )
    engine = config.engine if dtype == "auto" else config.engine.model_copy(update={"dtype": dtype})
    with step_bar() as show:
        painted = imagine.imagine(
            imagine.Options(loras=weights, model=model, engine=engine, **options),
            output=output,
            signing=imagine.open_signing(
                provenance, starts=imagine.given_files(file.read_bytes() for file in given) if given else None
            ),
            report=_to_terminal,
            on_steps=show,
        )
    for text in painted.cut:
        complain(f"The prompt was too long, and this was left out: {text}")
    for tag in tags_in(painted.recipe.prompt):
        complain(f"{tag} was read as part of the prompt: name the LoRA's file with --lora.")
    hand_over(painted.as_json() if as_json else str(painted.file))


def _check_given(options: Mapping[str, Any], *, configured: bool) -> None:
    """Raise UsageError for a given picture, or what reads it, without the other."""
    if options["mask"] and not options["image"]:
        raise click.UsageError("--mask needs --image: the picture whose white part is repainted.")
    if options["controlnet"] and not options["control"]:
        raise click.UsageError("--controlnet needs --control: the picture whose composition is kept.")
    if options["image_encoder"] and not options["ip_adapter"]:
        raise click.UsageError("--image-encoder needs --ip-adapter: the file that it is for.")
    if options["image_prompt"] and not options["ip_adapter"] and not configured:
        raise click.UsageError(
            "--image-prompt needs --ip-adapter: the file of an IP-Adapter. A model of --config may have one."
        )


def _of_one(source: str, revision: str | None, variant: str | None) -> Config:
    """Return a configuration of one checkpoint; raises ConfigurationError."""
    from bot.cli.checkpoints import model_at
    from bot.config import Config

    return Config.parse(
        {
            "models": [model_at(source) | {"revision": revision or "", "variant": variant or ""}],
            "engine": {"cache_dir": str(cache_folder())},
            "provenance": {"folder": str(data_folder())},
        }
    )


def _check_output(file: Path) -> None:
    if file.suffix.lower() != ".png":
        raise click.BadParameter(f"{file} must end in .png.", param_hint="'-o'")
    if not file.parent.is_dir():
        raise click.BadParameter(f"there is no folder {file.parent} for {file.name}.", param_hint="'-o'")


def cache_folder() -> Path:
    """Return the folder of compiled programs for commands without a configuration."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "sdjax-bot"


def data_folder() -> Path:
    """Return the folder of the self-made certificate for commands without a configuration."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "sdjax-bot"


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    collect_rarely()
    with _errors_as_sentences():
        commands.main(standalone_mode=False)
    sys.exit(0)


@contextmanager
def _errors_as_sentences() -> Iterator[None]:
    """Exit with one sentence and a status for every expected error."""
    try:
        yield
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(FAILED)
    except BrokenPipeError:
        # The reader of stdout is gone. Without this the interpreter reports it again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except (ConfigurationError, InvalidRequest) as error:
        _fail(_without_variables(error), MISTAKE)
    except (BotError, EngineError) as error:
        _fail(_without_variables(error), FAILED)
    except OSError as error:
        _fail(_of_system(error), FAILED)
    except Exception as error:  # noqa: BLE001 - its traceback may quote a file too
        flush()
        tell_bug(error)
        sys.exit(FAILED)


def _fail(sentence: str, status: int) -> NoReturn:
    flush()  # the log comes before this sentence
    complain(sentence)
    sys.exit(status)


def _without_variables(error: Exception) -> str:
    """Return the error's message without the texts of variables, which it may be about."""
    from bot.config import Config

    # A configuration may have several mistakes, each on its line.
    said = one_line(str(error)) if isinstance(error, EngineError) else str(error)
    return Config.say_again(said)


def _of_system(error: OSError) -> str:
    """Return a sentence for an error of the operating system."""
    place = f" {error.filename}" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"The disk is full{place and f', writing{place}'}: free some space and try again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"This may not be written or read:{place or ' ' + str(error)}; check its permissions."
    return f"{(error.strerror or str(error)).rstrip('.')}{place and f':{place}'}."


def _to_terminal(line: str) -> None:
    if sys.stderr.isatty():
        say(line, err=True)
