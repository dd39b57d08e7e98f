"""``--tracing-config-file``: kube-apiserver's flag, which the other programs here have, too."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import STRING, Flag, FlagSet

if TYPE_CHECKING:
    from pilothouse.machinery.metrics import Registry

with lazy_imports():
    from pilothouse.tracing import config, export, provider

FLAG = "tracing-config-file"
NEEDS_OPENTELEMETRY = "--tracing-config-file needs OpenTelemetry: pip install 'pilothouse[tracing]'"
APISERVER, MANAGER, SCHEDULER, NODES = "apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"
"""The services, by the names that upstream's have; its manager and scheduler send no spans."""


class TracingUnavailable(Exception):
    """The OpenTelemetry packages are missing. The message names what to install."""


def add_tracing_flags(flags: FlagSet, program: str, *, extra: bool = False) -> None:
    """Add the flag. ``program`` is whose tracing it configures; ``extra``: to the flags of a program that has
    upstream's."""
    flags.add("traces", Flag(FLAG, STRING, "", f"File with {program} tracing configuration.", extra=extra))


@asynccontextmanager
async def traced(
    env: Env,
    path: str,
    service: str,
    attributes: Mapping[str, str] | None = None,
    metrics: "Registry | None" = None,
) -> AsyncIterator[Env]:
    """A copy of ``Env`` with the tracing that the file configures; the same ``Env`` without a file. The remaining spans
    are sent at the end. Raises ``config.TracingError`` and ``TracingUnavailable``."""
    if not path:
        yield env
        return
    configuration = config.load_tracing_configuration(path)
    endpoint = configuration.endpoint or config.DEFAULT_ENDPOINT
    try:
        exporter = export.Exporter(export.otlp_exporter(endpoint), endpoint, metrics)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("opentelemetry", "grpc", "google"):
            raise
        raise TracingUnavailable(NEEDS_OPENTELEMETRY) from error
    pipeline = provider.Pipeline(env, configuration, exporter)
    try:
        yield msgspec.structs.replace(env, tracing=pipeline.service(service, attributes))
    finally:
        await exporter.close()
