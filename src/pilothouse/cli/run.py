"""``pilothouse run``: an operator against any API server."""

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from pilothouse.cli.clientside import (
    PATHS,
    common_flags,
    connected,
    connection_flags,
    decision_log,
    election_flags,
    traced,
)
from pilothouse.cli.operator_file import load_app
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.cli.webhooks import webhook_flags, webhook_settings
from pilothouse.client.decision_log_flags import add_decision_log_flags
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.tasks import first_of
from pilothouse.machinery.flags import BOOL, INT32, STRING, STRINGS, Flag, FlagSet, Parsed
from pilothouse.tracing.flags import add_tracing_flags

if TYPE_CHECKING:
    from pilothouse.operator import App

with lazy_imports():
    from pilothouse import operator, serving
    from pilothouse.cli import dev
    from pilothouse.client import errors, in_cluster
    from pilothouse.operator import endpoints, webhook_server
    from pilothouse.runtime import election

USAGE = """Runs the controllers of an operator: a Python file with a pilothouse.operator.App.

Usage:
  {program} FILE[:APP] [flags]
"""
_OFF = "0"
WATCH_NAMESPACE = "WATCH_NAMESPACE"
"""The environment variable with namespaces, separated by commas, which operator-sdk and OLM set."""
_LOG_FORMATS = ("text", "json")
_DEV_FLAGS = frozenset({"apply", "nodes", "data-dir", "ui"})
_ADDRESSES = ("metrics-bind-address", "health-probe-bind-address")


def flag_set(program: str) -> FlagSet:
    """Every flag of the command; those of controller-runtime's managers bear their names."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "operator",
        Flag("namespaces", STRINGS, (), f"Namespaces to watch; empty: those of {WATCH_NAMESPACE}, or all"),
        Flag("install", BOOL, False, "Apply CustomResourceDefinitions and webhook configurations first"),
        Flag("metrics-bind-address", STRING, "127.0.0.1:8080", "Address to serve /metrics on; 0: don't serve it"),
        Flag(
            "health-probe-bind-address",
            STRING,
            "127.0.0.1:8081",
            "Address to serve /healthz and /readyz on; 0: don't serve them",
        ),
        Flag(
            "logging-format",
            STRING,
            "text",
            'Sets the log format. Permitted formats: "json", "text"',
            choices=_LOG_FORMATS,
        ),
    )
    flags.add(
        "development",
        Flag(
            "dev",
            BOOL,
            False,
            "Run a control plane as `up` does, unless --kubeconfig or --master names one, apply the "
            "CustomResourceDefinitions, and restart the operator whenever a module in the directory of FILE changes. "
            "Metrics and probes are served only at addresses that are given",
        ),
        Flag(
            "apply",
            PATHS,
            (),
            "With --dev: manifest or directory of manifests to apply, at the start and after changes",
        ),
        Flag("nodes", INT32, 3, "With --dev: how many simulated nodes"),
        Flag("data-dir", STRING, "", "With --dev: directory to store the cluster in; empty: store it in memory"),
        Flag("ui", BOOL, False, "With --dev: serve a page that shows the cluster at /ui, and print a link to it"),
    )
    election_flags(
        flags,
        "Run controllers",
        Flag(
            "leader-elect-namespace",
            STRING,
            "",
            "Namespace of the Lease, whose name is that of the App; empty: the pod's own, or default outside of a pod",
        ),
    )
    webhook_flags(flags)
    connection_flags(flags, qps=50.0, burst=100)
    add_decision_log_flags(flags)
    add_tracing_flags(flags, "operator")
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Run until a signal."""
    parsed = parse(flag_set(program), program, args, most=1)
    if isinstance(parsed, int):
        return parsed
    if not parsed.arguments:
        print(
            f'Error: "{program}" needs the file of an operator\nSee "{program} --help" for usage.',
            file=sys.stderr,
        )
        return 2
    try:
        json_lines = writes_json(parsed)
        for flag in _ADDRESSES:
            _address(parsed, flag)
        if parsed["dev"]:
            return _develop(program, args, parsed)
        if wrong := sorted(_DEV_FLAGS.intersection(parsed.given)):
            raise UserError(f"--{wrong[0]} needs --dev", code=2)
        app = load_app(parsed.arguments[0])
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.code
    return serve(program, run_app(app, parsed), v=parsed["v"], json_lines=json_lines)


def writes_json(parsed: Parsed) -> bool:
    """Whether the log is to be JSON lines. Raises ``UserError``."""
    if parsed["logging-format"] not in _LOG_FORMATS:
        raise UserError(f'--logging-format is {" or ".join(_LOG_FORMATS)}, got "{parsed["logging-format"]}"', code=2)
    return bool(parsed["logging-format"] == "json")


def _develop(program: str, args: Sequence[str], parsed: Parsed) -> int:
    # As in `up`, log lines of the programs need --v=1; those of the operator are in its process.
    return serve(program, dev.develop(args, parsed), v=parsed["v"] - 1)


async def run_app(app: "App", parsed: Parsed, health: "operator.Health | None" = None) -> int:
    """Run an operator with these flags, until cancelled; ``health`` has its pending checks. Raises ``UserError``."""
    health = health or operator.Health()
    async with AsyncExitStack() as stack:
        env = await stack.enter_async_context(traced(parsed, Env(), app.name, metrics=app.metrics))
        metrics = endpoints.Endpoints(endpoints.metrics(app.metrics.exposition))
        probes = endpoints.Endpoints(endpoints.probes(health.waits_for))
        await stack.enter_async_context(_listening(metrics, "metrics-bind-address", parsed))
        await stack.enter_async_context(_listening(probes, "health-probe-bind-address", parsed))
        decisions = await stack.enter_async_context(decision_log(parsed, env, app.metrics))
        client = await stack.enter_async_context(connected(parsed, env, app.name, decisions))
        try:
            webhooks = await webhook_settings(app, parsed, client)
            if parsed["install"] and webhooks is None:
                await app.install(client)
            await app.run(client, env, _settings(parsed, webhooks), health)
        except ValueError as error:  # of contradictory settings
            raise UserError(str(error), code=2) from error
        except (errors.ApiError, election.LeadershipLost, OSError) as error:
            raise UserError(str(error) or type(error).__name__) from error
        except BaseExceptionGroup as group:  # of the tasks of the app; metrics and probes are served before
            first = first_of(group)
            if isinstance(first, serving.PortInUse):
                place = f"port {parsed['webhook-port']}"
                raise UserError(f"{place} is in use by another program; give another one: --webhook-port") from first
            if isinstance(first, serving.CannotListen):
                raise UserError(f"webhooks: {first}") from first
            if isinstance(first, webhook_server.UnusableCertificates):
                raise UserError(f"--webhook-cert-dir: {first}") from first
            raise
    return 0


def _settings(parsed: Parsed, webhooks: "operator.WebhookSettings | None") -> "operator.Settings":
    return operator.Settings(
        namespaces=parsed["namespaces"] if "namespaces" in parsed.given else _watched(os.environ),
        leader_elect=parsed["leader-elect"],
        lease_namespace=parsed["leader-elect-namespace"] or in_cluster.namespace() or "default",
        lease_duration_seconds=parsed["leader-elect-lease-duration"],
        renew_deadline_seconds=parsed["leader-elect-renew-deadline"],
        retry_period_seconds=parsed["leader-elect-retry-period"],
        webhooks=webhooks,
    )


def _watched(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The namespaces of the environment variable; none for all."""
    return tuple(filter(None, (part.strip() for part in environ.get(WATCH_NAMESPACE, "").split(","))))


def _address(parsed: Parsed, flag: str) -> tuple[str, int] | None:
    """Host and port, or None to not serve."""
    text: str = parsed[flag]
    if text == _OFF:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UserError(f'--{flag} must be HOST:PORT, :PORT or 0, got "{text}"', code=2)
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104  # asked for


@asynccontextmanager
async def _listening(application: "endpoints.Endpoints", flag: str, parsed: Parsed) -> AsyncIterator[None]:
    address = _address(parsed, flag)
    if address is None:
        yield
        return
    server = serving.Server(application, host=address[0], port=address[1])
    try:
        await server.start()
    except serving.CannotListen as error:
        raise UserError(f"--{flag}: {error}") from error
    try:
        yield
    finally:
        await server.stop()
