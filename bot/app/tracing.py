"""Opens the export of traces, where that is configured. Otherwise OpenTelemetry is not imported."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from yarl import URL

from bot.config.operators import TracesConfig
from bot.errors import ConfigurationError
from bot.log import version
from bot.tracing import NO_TRACING, Tracing

PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
MISSING = (
    "traces.export needs the packages of OpenTelemetry: install sdjax-bot[otel], or the packages in "
    "requirements-otel.lock."
)
ONLY_PROTOCOL = "http/protobuf"
NUMBERS = (
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
)
_HEADER = re.compile(r"[!#-'*+.0-9A-Z^-z|~-]+[ \t]*=[ \t]*[ !#-+\--:<-\[\]-~]*")


def open_tracing(config: TracesConfig, variables: Mapping[str, str], *, name: str, role: str) -> Tracing:
    """Return the exporter of traces of the process `name`; raises ConfigurationError with every mistake."""
    if mistakes := mistakes_in_tracing(config, variables):
        raise ConfigurationError("\n".join(mistakes))
    if not config.export or is_disabled(variables):
        return NO_TRACING
    try:
        tracing: Tracing = importlib.import_module("bot.otlp").OtlpTracing(
            name=name, role=role, version=version()
        )
    except ValueError as error:
        names = ", ".join(_variables_in(str(error)))
        raise ConfigurationError(f"{names or 'A variable of OpenTelemetry'} cannot be used.") from error
    return tracing


def is_disabled(variables: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's own variables turn traces off."""
    off = variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return off or variables.get("OTEL_TRACES_EXPORTER", "").strip() == "none"


def mistakes_in_tracing(config: TracesConfig, variables: Mapping[str, str]) -> list[str]:
    """Return a sentence for each reason why traces that are wanted cannot be exported."""
    if not config.export or is_disabled(variables):
        return []
    missing = [] if all(map(_is_installed, PACKAGES)) else [MISSING]
    return [*missing, *_wrong(variables)]


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def _variables_in(message: str) -> list[str]:
    """Return the variables that an error of OpenTelemetry names, maybe by the parameters that they set."""
    parameters = re.findall(r"\b(?:max_queue_size|max_export_batch_size|schedule_delay)", message)
    return re.findall(r"\bOTEL_[A-Z_]+", message) or [f"OTEL_BSP_{each.upper()}" for each in parameters]


def _wrong(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each variable whose value OpenTelemetry would accept and then not follow.

    No sentence shows the value: it may be a secret of another variable.
    """
    exporter = variables.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter not in ("", "otlp"):
        yield "OTEL_TRACES_EXPORTER: only “otlp” and “none” are known here."
    if (found := _of_traces(variables, "PROTOCOL")) and found[1] != ONLY_PROTOCOL:
        yield f"{found[0]}: only “{ONLY_PROTOCOL}” is known here."
    if (found := _of_traces(variables, "ENDPOINT")) and not _is_address(found[1]):
        yield f"{found[0]} must be an address such as http://127.0.0.1:4318."
    # Of the following OpenTelemetry would log the values, and headers hold keys.
    if (found := _of_traces(variables, "HEADERS")) and not _are_headers(found[1]):
        yield f"{found[0]} must be a list such as name=value,name=value, with other characters as %22."
    if (found := _of_traces(variables, "TIMEOUT")) and not re.fullmatch(r"\d+(\.\d+)?", found[1]):
        yield f"{found[0]}: a number is wanted."
    for name in NUMBERS:
        if (text := variables.get(name, "").strip()) and not re.fullmatch(r"[+-]?\d+", text):
            yield f"{name}: a whole number is wanted."
    for kind in ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"):
        # `Path` raises an error for a text that is too long for a name.
        if (found := _of_traces(variables, kind)) and not os.path.isfile(found[1]):  # noqa: PTH113
            yield f"{found[0]}: it names no file."


def _of_traces(variables: Mapping[str, str], kind: str) -> tuple[str, str] | None:
    """Return the name and the value of a variable of the exporter: that of traces, or else of all signals."""
    names = (f"OTEL_EXPORTER_OTLP_TRACES_{kind}", f"OTEL_EXPORTER_OTLP_{kind}")
    return next(((name, variables[name].strip()) for name in names if variables.get(name, "").strip()), None)


def _are_headers(text: str) -> bool:
    headers = [header.strip() for header in text.split(",")]
    return all(_HEADER.fullmatch(header) for header in headers if header)


def _is_address(text: str) -> bool:
    try:
        address = URL(text)
    except ValueError:
        return False
    return address.scheme in ("http", "https") and bool(address.host)
