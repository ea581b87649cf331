"""Opens the export of traces, where that is configured. Otherwise OpenTelemetry is not imported."""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec

from yarl import URL

from bot.config.operators import TracesConfig
from bot.domain.errors import ConfigurationError
from bot.telemetry.log import version
from bot.telemetry.tracing import NO_TRACING, Tracing

PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
MISSING = (
    "traces.export needs the packages of OpenTelemetry: install sdjax-bot[otel], or the packages in "
    "requirements-otel.lock."
)
_HEADER = re.compile(r"[!#-'*+.0-9A-Z^-z|~-]+[ \t]*=[ \t]*[ !#-+\--:<-\[\]-~]*")
_RATIO = "traceidratio"
_SAMPLERS = ("always_on", "always_off", _RATIO)


def open_tracing(config: TracesConfig, variables: Mapping[str, str], *, name: str, role: str) -> Tracing:
    """Return the exporter of traces of the process `name`; raises ConfigurationError with every mistake."""
    if mistakes := mistakes_in_tracing(config, variables):
        raise ConfigurationError("\n".join(mistakes))
    if not config.export or is_disabled(variables):
        return NO_TRACING
    try:
        tracing: Tracing = importlib.import_module("bot.telemetry.otlp").OtlpTracing(
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
    """Yield a sentence for each variable whose value OpenTelemetry would log, or accept and then not follow.

    No sentence shows the value: it may be a secret of another variable.
    """
    for kind, is_right, sentence in _OF_THE_EXPORTER:
        if (found := _of_traces(variables, kind)) and not is_right(found[1]):
            yield f"{found[0]}{sentence}"
    for name, is_right, sentence in _OTHERS:
        if (text := variables.get(name, "")).strip() and not is_right(text):
            yield f"{name}{sentence}"
    uses_ratio = variables.get("OTEL_TRACES_SAMPLER", "").lower().endswith(_RATIO)
    ratio = variables.get("OTEL_TRACES_SAMPLER_ARG", "").strip()  # 1 where it is empty
    if uses_ratio and ratio and not 0 <= _number(ratio) <= 1:
        yield "OTEL_TRACES_SAMPLER_ARG: a number from 0 to 1 is wanted."


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


def _is_file(text: str) -> bool:
    return os.path.isfile(text)  # noqa: PTH113 - `Path` raises an error for a text that is too long for a name


def _number(text: str) -> float:
    """Return the number that OpenTelemetry reads in a text; not a number where there is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _is_whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _is_sampler(text: str) -> bool:
    return text.lower().removeprefix("parentbased_") in _SAMPLERS


def _are_detectors(text: str) -> bool:
    known = {"*", *entry_points(group="opentelemetry_resource_detector").names}
    return all(name.strip() in known for name in text.split(",") if name.strip())


def _is_provider(text: str) -> bool:
    return text in entry_points(group="opentelemetry_otlp_credential_provider").names


_Checks = tuple[tuple[str, Callable[[str], bool], str], ...]
"""The name of a variable, whether its value is right, and the end of the sentence for one that is not."""
_OF_THE_EXPORTER: _Checks = (
    ("PROTOCOL", "http/protobuf".__eq__, ": only “http/protobuf” is known here."),
    ("ENDPOINT", _is_address, " must be an address such as http://127.0.0.1:4318."),
    ("HEADERS", _are_headers, " must be a list such as name=value,name=value, with other characters as %22."),
    ("TIMEOUT", lambda text: 0 < _number(text) < math.inf, ": a number of seconds above 0 is wanted."),
    (
        "COMPRESSION",
        lambda text: text.lower() in ("none", "gzip", "deflate"),
        ": only “none”, “gzip” and “deflate” are known.",
    ),
    *(
        (kind, _is_file, ": it names no file.")
        for kind in ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE")
    ),
)
_OTHERS: _Checks = (
    ("OTEL_TRACES_EXPORTER", lambda text: text.strip() == "otlp", ": only “otlp” and “none” are known here."),
    (
        "OTEL_TRACES_SAMPLER",
        _is_sampler,
        f": only “always_on”, “always_off” and “{_RATIO}” are known, each maybe after “parentbased_”.",
    ),
    (
        "OTEL_RESOURCE_ATTRIBUTES",
        lambda text: all("=" in item for item in text.split(",") if item.strip()),
        " must be a list such as name=value,name=value.",
    ),
    ("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", _are_detectors, ": it names a detector that is not installed."),
    *(
        (
            f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{name}",
            _is_provider,
            ": it names a provider that is not installed.",
        )
        for name in ("CREDENTIAL_PROVIDER", "TRACES_CREDENTIAL_PROVIDER")
    ),
    *(
        (f"OTEL_BSP_{name}", _is_whole, ": a whole number is wanted.")
        for name in ("SCHEDULE_DELAY", "EXPORT_TIMEOUT", "MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE")
    ),
)
