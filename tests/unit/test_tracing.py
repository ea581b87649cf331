"""The export of traces: imports nothing while off, is refused with sentences, and delays no work."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing

import pytest

from bot.app.tracing import MISSING, mistakes_in_tracing, open_tracing
from bot.config.operators import TracesConfig
from bot.domain.errors import ConfigurationError
from bot.telemetry.tracing import NO_TRACING, about, subject

ON = TracesConfig(export=True)
PROCESS = {"name": "front-1", "role": "front"}


def test_without_the_switch_or_the_packages_nothing_of_opentelemetry_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith(("opentelemetry.", "bot.telemetry.otlp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)  # as where the extra is not installed
    assert open_tracing(TracesConfig(), {}, **PROCESS) is NO_TRACING
    assert mistakes_in_tracing(ON, {}) == [MISSING]


def test_a_collector_that_hangs_delays_neither_the_work_nor_the_end() -> None:
    script = """
import asyncio
import bot.telemetry.otlp
from bot.telemetry.tracing import Stages
bot.telemetry.otlp.CLOSE_SECONDS = 0.1
async def main():
    tracing = bot.telemetry.otlp.OtlpTracing(name="worker-1", role="worker", version="1")
    span = tracing.begin("imagine", Stages())
    for number in range(1000):  # more than the queue of spans holds
        tracing.record("paint", parent=span.traceparent, work=Stages(), attributes={"image": number})
    await tracing.close()
asyncio.run(main())
print("ended")
"""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:  # it takes connections and never answers
        host, port = silent.getsockname()
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{host}:{port}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3600",
            "OTEL_BSP_MAX_QUEUE_SIZE": "64",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "16",
        }
        if sys.pycache_prefix:  # where Python's bytecode is kept
            variables["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env=variables,
            timeout=100,
        )
        assert done.stdout == "ended\n"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: only “otlp” and “none”"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL: only"),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector:4318"},
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be an address such as",
        ),
        (
            {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/none.pem"},
            "OTEL_EXPORTER_OTLP_CERTIFICATE: it names no file.",
        ),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "a=b, hunter2"}, "OTEL_EXPORTER_OTLP_HEADERS must be a list"),
        ({"OTEL_EXPORTER_OTLP_TRACES_HEADERS": 'key="hunter2"'}, "OTEL_EXPORTER_OTLP_TRACES_HEADERS must be"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "hunter2"}, "OTEL_EXPORTER_OTLP_TIMEOUT: a number of sec"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "0.0"}, "OTEL_EXPORTER_OTLP_TIMEOUT: a number of seconds above"),
        ({"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "inf"}, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: a number of"),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}, "OTEL_EXPORTER_OTLP_COMPRESSION: only “none”, “gzip”"),
        ({"OTEL_TRACES_SAMPLER": "hunter2"}, "OTEL_TRACES_SAMPLER: only “always_on”, “always_off” and “tra"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "a=b,hunter2"}, "OTEL_RESOURCE_ATTRIBUTES must be a list such as"),
        (
            {"OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "otel,hunter2"},
            "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS: it names a detector that is not installed.",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1.5"},
            "OTEL_TRACES_SAMPLER_ARG: a number from 0 to 1",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "TraceIdRatio", "OTEL_TRACES_SAMPLER_ARG": "hunter2"},
            "OTEL_TRACES_SAMPLER_ARG: a number from 0 to 1",
        ),
        (
            {"OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER": "hunter2"},
            "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER: it names a provider that is not installed.",
        ),
        (
            {"OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER": "hunter2"},
            "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER: it names a provider",
        ),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "hunter2"}, "OTEL_BSP_MAX_QUEUE_SIZE: a whole number is wanted."),
        ({"OTEL_EXPORTER_OTLP_CLIENT_KEY": "x" * 300}, "OTEL_EXPORTER_OTLP_CLIENT_KEY: it names no file."),
    ],
)
def test_a_variable_that_cannot_be_used_is_refused_with_a_sentence(
    variables: dict[str, str], said: str
) -> None:
    (mistake,) = mistakes_in_tracing(ON, variables)
    assert said in mistake
    assert not any(value in mistake for value in variables.values())
    with pytest.raises(ConfigurationError, match=r"\.$"):
        open_tracing(ON, variables, **PROCESS)


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b, Authorization = Bearer x.y/z==,"},
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "2.5", "OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
        {"OTEL_EXPORTER_OTLP_TIMEOUT": ".5", "OTEL_BSP_MAX_QUEUE_SIZE": "1_000"},
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "1e1", "OTEL_EXPORTER_OTLP_COMPRESSION": " GZIP"},
        {"OTEL_TRACES_SAMPLER": "ParentBased_TraceIdRatio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
        {"OTEL_TRACES_SAMPLER": "always_off", "OTEL_TRACES_SAMPLER_ARG": "1.5"},
        {"OTEL_TRACES_SAMPLER": "TraceIdRatio"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": ""},
        {"OTEL_RESOURCE_ATTRIBUTES": ",team=a, "},
        {"OTEL_RESOURCE_ATTRIBUTES": "team=a=b,c=", "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "otel, process,"},
        {"OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "*"},
    ],
)
def test_values_that_opentelemetry_reads_are_no_mistakes(variables: dict[str, str]) -> None:
    assert mistakes_in_tracing(ON, variables) == []


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"),
        ("OTEL_BSP_SCHEDULE_DELAY", "-1", "OTEL_BSP_SCHEDULE_DELAY"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE, OTEL_BSP_MAX_QUEUE_SIZE"),
    ],
)
def test_a_limit_that_opentelemetry_refuses_is_a_mistake_in_the_configuration(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, named: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=rf"^{named} cannot be used\.$"):
        open_tracing(ON, {}, **PROCESS)


@pytest.mark.parametrize("variables", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}])
def test_opentelemetrys_own_switches_turn_traces_off(variables: dict[str, str]) -> None:
    assert open_tracing(ON, variables, **PROCESS) is NO_TRACING


def test_a_trace_id_is_the_second_part_of_the_header_of_w3c() -> None:
    with about("3f9k2", traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"):
        assert subject()["trace"] == "0af7651916cd43dd8448eb211c80319c"
    with about("3f9k2", traceparent=None):
        assert "trace" not in subject()
