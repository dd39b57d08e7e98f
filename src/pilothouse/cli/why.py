"""``pilothouse why``: explains the state of an object, or its deletion."""

import datetime
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.core import NAMESPACES
from pilothouse.cli.clientside import (
    PATHS,
    CommandConnection,
    command_connection,
    command_flags,
    common_flags,
    namespace_flag,
)
from pilothouse.cli.program import UserError, serve
from pilothouse.cli.resource_arguments import (
    find_resource,
    history_begin,
    parse_for_object,
    revision_at,
    times_of_revisions,
    type_and_name,
)
from pilothouse.cli.terminal import escaped, escaped_json
from pilothouse.client.errors import ApiError
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.api_resources import Resource
from pilothouse.machinery.flags import BOOL, DURATION, STRING, STRINGS, Flag, FlagSet, Parsed
from pilothouse.machinery.times import parse_time
from pilothouse.why import (
    NOT_FOUND,
    UNREADABLE,
    Evidence,
    Explanation,
    Reference,
    ServerEvidence,
    explain,
    text_lines,
)
from pilothouse.why.names import names_alike, namespaces_with

if TYPE_CHECKING:
    from pilothouse.client import Client
    from pilothouse.machinery.api_resources import Discovery

with lazy_imports():
    from pilothouse.apiserver import resources
    from pilothouse.cli import not_ready
    from pilothouse.why import logs

USAGE = """Explains the state of an object: deleted, pending, not ready, terminating, created. It follows the causing
changes back to the root cause, a write or a fault.

Without an object: what is not ready in a namespace, or in the cluster with -A, and the root causes.

With kube-apiserver the changes are read from logs: --decision-log of pilothouse's programs, and --audit-log.

Usage:
  {program} TYPE/NAME [flags]
  {program} [-n NAMESPACE | -A] [flags]
"""


_TERMINAL_LINE = 400
_MINUTES = {10: "ten minutes", 5: "five minutes", 2: "two minutes", 1: "one minute"}
"""Times that are proposed for an object that is not found, if the history goes back further."""


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "why",
        namespace_flag("the object"),
        Flag("all-namespaces", BOOL, False, "What is not ready in all namespaces, and without one", shorthand="A"),
        Flag("output", STRING, "text", "Output format: text or json", shorthand="o"),
        Flag(
            "at",
            STRING,
            "",
            "The time of the state to explain: a resourceVersion, a time such as 2026-01-01T00:00:00Z, or 5m for five "
            "minutes ago (with pilothouse's API server only); now if empty",
        ),
        Flag(
            "trusted-users",
            STRINGS,
            (),
            "Users whose recorded causes are trusted, in addition to Kubernetes' components, for example the service "
            "accounts of operators that are run with pilothouse",
        ),
    )
    flags.add(
        "logs",
        Flag(
            "decision-log",
            PATHS,
            (),
            "A decision log of pilothouse's manager, scheduler, nodes or operators. May be repeated, may be a pattern "
            "such as 'decisions*', and may be compressed with gzip",
        ),
        Flag(
            "audit-log",
            PATHS,
            (),
            "An audit log of the API server in format json; patterns and compression as for --decision-log",
        ),
        Flag(
            "logs-only",
            BOOL,
            False,
            "Ask no cluster, for example if that of the logs is gone: only the recorded changes are known then",
        ),
        Flag(
            "log-timeout",
            DURATION,
            60.0,
            "How long logs are read, beginning with the newest. The rest is listed under Not seen",
        ),
    )
    command_flags(flags, qps=200.0, burst=400)
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Print the explanation."""
    parsed = parse_for_object(flag_set(program), program, args, optional=True)
    if isinstance(parsed, int):
        return parsed
    complaint = ""
    if parsed.arguments and parsed["all-namespaces"]:
        complaint = "--all-namespaces is for what is not ready, without TYPE/NAME"
    elif not parsed.arguments and parsed["logs-only"]:
        complaint = "--logs-only needs TYPE/NAME: logs do not say what is not ready"
    if complaint:
        print(f'Error: {complaint}\nSee "{program} --help" for usage.', file=sys.stderr)
        return 2
    return serve(program, _run(parsed) if parsed.arguments else _run_for_all(parsed), v=parsed["v"], waits=True)


async def _run_for_all(parsed: Parsed) -> int:
    """Explain what is not ready."""
    async with _connection(parsed) as (client, info, own):
        namespace = "" if parsed["all-namespaces"] else own
        try:
            discovery = await client.discover()
            revision, time = await _at(parsed, client)
            async with _evidence(parsed, client, discovery, revision) as evidence:
                resources = discovery.preferred_resources()
                result = await not_ready.overview(evidence, resources, namespace, time=time or Env().now())
                no_namespace = await _is_missing(evidence, namespace)
        except ApiError as error:
            raise UserError(str(error)) from error
    if result is None:
        raise UserError("; ".join(evidence.unseen))
    if no_namespace:
        print(escaped(f"There is no namespace {namespace} in {info.title}."), file=sys.stderr)
        return 1
    if parsed["output"] == "json":
        _print_json(result)
    else:
        _print_lines(not_ready.overview_lines(result))
    return 0


async def _run(parsed: Parsed) -> int:
    if parsed["logs-only"]:
        return await _run_without_cluster(parsed)
    text, name = type_and_name(parsed.arguments)
    async with _connection(parsed) as (client, info, own):
        try:
            discovery = await client.discover()
            resource = find_resource(discovery, text)
            namespace = own if resource.namespaced else ""
            reference = Reference(resource.group_resource, namespace, name)
            revision, time = await _at(parsed, client)
            async with _evidence(parsed, client, discovery, revision) as evidence:
                explanation = await explain(evidence, reference, time=time)
                similar, elsewhere, age, no_namespace = list[str](), list[str](), 0.0, False
                if explanation.state == NOT_FOUND:
                    no_namespace = await _is_missing(evidence, namespace)
                    similar = await names_alike(evidence, reference)
                    elsewhere = await namespaces_with(evidence, reference)
                    begin = await history_begin(client)
                    age = (Env().now() - begin[1]).total_seconds() if begin is not None else 0.0
        except ApiError as error:
            raise UserError(str(error)) from error
    _print(parsed, explanation)
    if explanation.state != NOT_FOUND:
        return int(explanation.state == UNREADABLE)
    if no_namespace:
        print(escaped(f"There is no namespace {namespace}."), file=sys.stderr)
    for line in not_found_lines(reference, info.title, similar, elsewhere, age=age):
        print(escaped(line), file=sys.stderr)
    return 1


async def _is_missing(evidence: Evidence, namespace: str) -> bool:
    """Whether a namespace does not exist. False if it can't be read."""
    reference = Reference("namespaces", "", namespace)
    return bool(namespace) and await evidence.get(reference) is None and not evidence.is_unreadable(reference)


@asynccontextmanager
async def _connection(parsed: Parsed) -> "AsyncIterator[CommandConnection]":
    """The connection of the command. Raises ``UserError``, which names ``--logs-only`` if there are logs."""
    async with AsyncExitStack() as stack:
        try:
            connection = await stack.enter_async_context(command_connection(parsed, Env(), "pilothouse-why"))
        except UserError as error:
            if not parsed["decision-log"] and not parsed["audit-log"]:
                raise
            raise UserError(f"{error}. If the cluster is gone, --logs-only explains from the logs alone") from error
        yield connection


def _print(parsed: Parsed, explanation: Explanation) -> None:
    if parsed["output"] == "json":
        _print_json(explanation)
    else:
        _print_lines(text_lines(explanation))


def _print_json(result: "Explanation | not_ready.Overview") -> None:
    print(escaped_json(msgspec.json.format(msgspec.json.encode(result), indent=2).decode()))


def _print_lines(lines: Sequence[str]) -> None:
    safe = map(escaped, lines)
    print("\n".join(map(_shortened, safe) if sys.stdout.isatty() else safe))


def _shortened(line: str) -> str:
    """The line for a terminal, where messages such as the last 4096 bytes of a log would hide the tree."""
    return line if len(line) <= _TERMINAL_LINE else f"{line[: _TERMINAL_LINE - 1]}…"


async def _run_without_cluster(parsed: Parsed) -> int:
    if parsed["at"]:
        raise UserError("--at can't be used with logs: they do not say what was there at a time", code=2)
    text, name = type_and_name(parsed.arguments)
    async with _read_logs(parsed) as index:
        resource = _built_in_or_custom(text)
        reference = Reference(resource.group_resource, parsed["namespace"] or "default", name)
        if not resource.namespaced or (not resource.version and not index.of_object(reference)):
            reference = msgspec.structs.replace(reference, namespace="")
        server = logs.NoServer(resources.built_in_discovery())
        evidence = logs.LogEvidence(server, index, trusted_users=parsed["trusted-users"])
        explanation = await explain(evidence, reference)
    _print(parsed, explanation)
    return 1 if explanation.state == NOT_FOUND else 0


def _built_in_or_custom(text: str) -> Resource:
    """The resource of a type, without a server: custom ones need their group (``gadgets.example.com``). Raises
    ``UserError``."""
    try:
        return find_resource(resources.built_in_discovery(), text)
    except UserError:
        name, _dot, group = text.lower().partition(".")
        if not group:
            raise
        return Resource(group, "", name, name.removesuffix("s"), namespaced=True)


def not_found_lines(
    reference: Reference, cluster: str, similar: Sequence[str], elsewhere: Sequence[str] = (), *, age: float = 0.0
) -> Iterator[str]:
    """The context and namespace, and how to find the correct ones. ``elsewhere``: other namespaces with an object of
    this name. ``age``: how many seconds the history goes back."""
    yield f"Looked in {cluster}{f', namespace {reference.namespace}' if reference.namespace else ''}."
    if similar:
        yield f"Similar names: {', '.join(similar)}"
    if elsewhere:
        yield f"Found in other namespaces: {', '.join(elsewhere)}"
    # The history may be shortened at its beginning until the command is entered.
    time = next((minutes for minutes in _MINUTES if age > 60 * (minutes + 1)), None)
    if time is not None:
        scope = f" -n {reference.namespace}" if reference.namespace else ""
        yield f"`pilothouse get {reference.resource}{scope} --at {time}m` lists those of {_MINUTES[time]} ago."


async def _at(parsed: Parsed, client: "Client") -> tuple[int, datetime.datetime | None]:
    """The resourceVersion and the time of ``--at``; 0 and None without it. Raises ``UserError``."""
    if not parsed["at"]:
        return 0, None
    if parsed["decision-log"] or parsed["audit-log"]:
        raise UserError("--at can't be used with logs: they do not say what was there at a time", code=2)
    revision = int(await revision_at(client, parsed["at"], Env().now()))
    time = (await times_of_revisions(client))(revision)
    return revision, parse_time(time) if time else None


@asynccontextmanager
async def _evidence(parsed: Parsed, client: "Client", discovery: "Discovery", revision: int) -> AsyncIterator[Evidence]:
    """The evidence from the API server and from logs, if there are any. Raises ``UserError``."""
    server = ServerEvidence(client, discovery, trusted_users=parsed["trusted-users"], at=revision)
    if not parsed["decision-log"] and not parsed["audit-log"]:
        yield server
        return
    async with _read_logs(parsed) as index:
        await _check_cluster(client, index)
        yield logs.LogEvidence(server, index, trusted_users=parsed["trusted-users"])


async def _check_cluster(client: "Client", index: "logs.LogIndex") -> None:
    """Raises ``UserError`` if the logs have resourceVersions that the cluster has not reached."""
    try:
        reached = int((await client.list(NAMESPACES.metadata, limit=1)).metadata.resource_version)
    except (ApiError, ValueError):
        return  # forbidden, or no number: the explanation is of the objects that are found
    if index.newest_version > reached:
        raise UserError(
            f"the logs are of another cluster: they go to resourceVersion {index.newest_version}, and this one is at "
            f"{reached}. --logs-only explains from the logs alone"
        )


@asynccontextmanager
async def _read_logs(parsed: Parsed) -> "AsyncIterator[logs.LogIndex]":
    """The logs of the flags. Raises ``UserError``."""
    index = logs.LogIndex(Env())
    sources = [logs.LogSource(logs.DECISIONS, path) for path in parsed["decision-log"]]
    sources += [logs.LogSource(logs.AUDIT, path) for path in parsed["audit-log"]]
    if not sources:
        raise UserError("--logs-only needs --decision-log or --audit-log", code=2)
    try:
        await index.read(sources, seconds=parsed["log-timeout"])
        yield index
    except logs.LogFileError as error:
        raise UserError(str(error)) from error
    finally:
        index.close()
