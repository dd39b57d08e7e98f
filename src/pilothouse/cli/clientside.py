"""Shared by client programs: flags for the API server and leader election, and creating a client.

``connected`` is for programs that run on, and wait for the API server; ``command_connection`` for commands that a user
types, which connect as kubectl does.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from pilothouse.cli.program import UserError
from pilothouse.client.decision_log_flags import decision_log_options
from pilothouse.env import Env, Log
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import (
    BOOL,
    DURATION,
    FLOAT,
    INT32,
    LEVEL,
    STRING,
    Flag,
    FlagError,
    FlagSet,
    FlagType,
    Parsed,
)
from pilothouse.tracing import flags as tracing_flags

if TYPE_CHECKING:
    from pilothouse.client import Client
    from pilothouse.client.connect import ConnectionInfo
    from pilothouse.client.decision_log import DecisionLog
    from pilothouse.machinery.metrics import Registry

with lazy_imports():
    from pilothouse.cli.clusters import unreachable
    from pilothouse.client import client as api_client
    from pilothouse.client import connect, errors
    from pilothouse.runtime import api_server
    from pilothouse.tracing import requests

PATHS = FlagType("path", lambda text: (text,), " ".join, join=lambda old, further: (*old, *further))


def connection_flags(flags: FlagSet, *, qps: float, burst: int) -> None:
    """Add the flags for the connection."""
    flags.add(
        "connection",
        Flag(
            "kubeconfig",
            STRING,
            "",
            "Path to the kubeconfig file. Without it and --master: the current context of the files in KUBECONFIG, in "
            "a pod its service account, else the current context of ~/.kube/config",
        ),
        Flag("master", STRING, "", "Address of the API server; overrides the one in the kubeconfig"),
        Flag("kube-api-qps", FLOAT, qps, "QPS to use while talking with the API server; 0: no limit"),
        Flag("kube-api-burst", INT32, burst, "Burst to use while talking with the API server"),
    )


def command_flags(flags: FlagSet, *, qps: float, burst: int) -> None:
    """Add the flags for the connection of an interactive command, for ``command_connection``."""
    flags.add("connection", Flag("context", STRING, "", "Context of the kubeconfig; the current one if empty"))
    connection_flags(flags, qps=qps, burst=burst)


def namespace_flag(noun: str) -> Flag:
    """The namespace of the objects; see ``CommandConnection.namespace``."""
    return Flag("namespace", STRING, "", f"Namespace of {noun}; that of the context if empty", shorthand="n")


def election_flags(flags: FlagSet, noun: str, *identity: Flag) -> None:
    """Add the flags of leader election; ``noun`` runs on the leader, ``identity`` is the default Lease."""
    flags.add(
        "leader election",
        Flag("leader-elect", BOOL, False, f"{noun} only while this process holds the Lease"),
        *identity,
        Flag(
            "leader-elect-lease-duration",
            DURATION,
            15.0,
            "How long the other candidates wait after the last renewal of the Lease before they try to acquire it",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DURATION,
            10.0,
            "How long the leader tries to renew the Lease before it stops leading",
        ),
        Flag("leader-elect-retry-period", DURATION, 2.0, "Wait between two attempts to acquire or renew the Lease"),
    )


def common_flags(flags: FlagSet) -> None:
    """Add the flags that every command has."""
    flags.add(
        "global",
        Flag("help", BOOL, False, "Print this help", shorthand="h"),
        Flag("v", LEVEL, 0, "Number for the log level verbosity", shorthand="v"),
    )


@asynccontextmanager
async def connected(
    parsed: Parsed, env: Env, agent: str, decisions: "DecisionLog | None" = None, *, log: Log | None = None
) -> "AsyncIterator[Client]":
    """A client of the API server in the flags, when that responds; its writes are recorded in ``decisions``.

    With ``log`` the server is logged first. Raises ``UserError``.
    """
    try:
        info = connect.find(kubeconfig=parsed["kubeconfig"], master=parsed["master"])
    except errors.ConfigError as error:
        raise UserError(str(error)) from error
    async with _client(info, parsed, env, agent, decisions, log) as client:
        yield client


class CommandConnection(NamedTuple):
    """The connection of a command."""

    client: "Client"
    info: "ConnectionInfo"
    namespace: str
    """That of ``--namespace``, else of the context, else ``default``."""


@asynccontextmanager
async def command_connection(parsed: Parsed, env: Env, agent: str) -> AsyncIterator[CommandConnection]:
    """As ``connected``, with the context that ``--context`` names, and without waiting for a cluster in the background
    that does not run. Raises ``UserError``."""
    try:
        info = connect.find(kubeconfig=parsed["kubeconfig"], context=parsed["context"], master=parsed["master"])
    except errors.ConfigError as error:
        unreachable.check_kubeconfig(parsed["kubeconfig"] or os.environ.get("KUBECONFIG", ""))
        raise UserError(str(error)) from error
    unreachable.check_address(info.endpoint.host, info.endpoint.port)
    namespace = parsed["namespace"] if "namespace" in parsed.values else ""
    async with _client(info, parsed, env, agent) as client:
        yield CommandConnection(client, info, namespace or info.namespace or "default")


@asynccontextmanager
async def _client(
    info: "ConnectionInfo",
    parsed: Parsed,
    env: Env,
    agent: str,
    decisions: "DecisionLog | None" = None,
    log: Log | None = None,
) -> "AsyncIterator[Client]":
    try:
        transport = info.transport(env)
    except errors.ConfigError as error:
        raise UserError(str(error)) from error
    if log is not None:
        info.log(log)
    traced = transport if env.tracing is None else requests.TracedTransport(transport, env.tracing, remote=True)
    client = api_client.Client(
        traced if decisions is None else decisions.wrap(traced),
        env,
        qps=parsed["kube-api-qps"],
        burst=parsed["kube-api-burst"],
        user_agent=api_client.default_user_agent(agent),
    )
    try:
        try:
            await wait(client, env, info.server)
        except UserError as error:
            text = unreachable.with_other_program(str(error), info.endpoint.host, info.endpoint.port)
            raise UserError(text, error.code) from error
        yield client
    finally:
        await transport.close()


@asynccontextmanager
async def decision_log(
    parsed: Parsed, env: Env, metrics: "Registry | None" = None
) -> "AsyncIterator[DecisionLog | None]":
    """The log of ``--decision-log``, closed at the end. Raises ``UserError``."""
    try:
        log = decision_log_options(parsed).open(env, metrics)
    except FlagError as error:
        raise UserError(str(error), code=2) from error
    except OSError as error:
        raise UserError(str(error)) from error
    try:
        yield log
    finally:
        if log is not None:
            await log.close()


@asynccontextmanager
async def traced(
    parsed: Parsed,
    env: Env,
    service: str,
    attributes: Mapping[str, str] | None = None,
    metrics: "Registry | None" = None,
) -> AsyncIterator[Env]:
    """``env`` with the tracing of ``--tracing-config-file``, if it is set. Raises ``UserError``."""
    async with AsyncExitStack() as stack:
        try:
            opened = tracing_flags.traced(env, parsed[tracing_flags.FLAG], service, attributes, metrics)
            env = await stack.enter_async_context(opened)
        except ValueError as error:
            raise UserError(str(error), code=2) from error
        except tracing_flags.TracingUnavailable as error:
            raise UserError(str(error)) from error
        yield env


async def wait(client: "Client", env: Env, server: str) -> None:
    """Wait for the API server. Raises ``UserError`` if it does not respond, or rejects the credentials."""
    try:
        await api_server.wait_for_api_server(client, env, server)
    except ConnectionError as error:
        raise UserError(str(error)) from error
