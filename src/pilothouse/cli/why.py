"""``pilothouse why``: explains the state of an object, or its deletion."""

import datetime
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from pilothouse.cli.clientside import PATHS, command_connection, command_flags, common_flags, namespace_flag
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
from pilothouse.machinery.flags import DURATION, STRING, STRINGS, Flag, FlagSet, Parsed
from pilothouse.machinery.times import parse_time
from pilothouse.why import NOT_FOUND, Evidence, Reference, ServerEvidence, explain, text_lines
from pilothouse.why.names import names_alike

if TYPE_CHECKING:
    from pilothouse.client import Client
    from pilothouse.machinery.api_resources import Discovery

with lazy_imports():
    from pilothouse.why import logs

USAGE = """Explains the state of an object: deleted, pending, not ready, terminating, created. It follows the causing
changes back to the root cause, a write or a fault.

With kube-apiserver the changes are read from logs: --decision-log of pilothouse's programs, and --audit-log.

Usage:
  {program} TYPE/NAME [flags]
"""


_MINUTES = {10: "ten minutes", 5: "five minutes", 2: "two minutes", 1: "one minute"}
"""Times that are proposed for an object that is not found, if the history goes back further."""


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "why",
        namespace_flag("the object"),
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
            "log-timeout",
            DURATION,
            60.0,
            "How long logs are read, beginning with the newest. The rest is listed under Not seen",
        ),
    )
    command_flags(flags, qps=200.0, burst=400)
    common_flags(flags)
    return flags


def run(program: str, words: Sequence[str]) -> int:
    """Print the explanation."""
    parsed = parse_for_object(flag_set(program), program, words)
    return parsed if isinstance(parsed, int) else serve(program, _run(parsed), v=parsed["v"], waits=True)


async def _run(parsed: Parsed) -> int:
    text, name = type_and_name(parsed.arguments)
    async with command_connection(parsed, Env(), "pilothouse-why") as (client, info, own):
        try:
            discovery = await client.discover()
            resource = find_resource(discovery, text)
            namespace = own if resource.namespaced else ""
            reference = Reference(resource.group_resource, namespace, name)
            revision, time = await _at(parsed, client)
            async with _evidence(parsed, client, discovery, revision) as evidence:
                explanation = await explain(evidence, reference, time=time)
                similar, age = list[str](), 0.0
                if explanation.state == NOT_FOUND:
                    similar = await names_alike(evidence, reference)
                    begin = await history_begin(client)
                    age = (Env().now() - begin[1]).total_seconds() if begin is not None else 0.0
        except ApiError as error:
            raise UserError(str(error)) from error
    if parsed["output"] == "json":
        print(escaped_json(msgspec.json.format(msgspec.json.encode(explanation), indent=2).decode()))
    else:
        print("\n".join(map(escaped, text_lines(explanation))))
    if explanation.state != NOT_FOUND:
        return 0
    for line in not_found_lines(reference, info.title, similar, age=age):
        print(escaped(line), file=sys.stderr)
    return 1


def not_found_lines(reference: Reference, cluster: str, similar: Sequence[str], *, age: float = 0.0) -> Iterator[str]:
    """The context and namespace, and how to find the correct name. ``age``: how many seconds the history goes back."""
    yield f"Looked in {cluster}{f', namespace {reference.namespace}' if reference.namespace else ''}."
    if similar:
        yield f"Similar names: {', '.join(similar)}"
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
    index = logs.LogIndex(Env())
    sources = [logs.LogSource(logs.DECISIONS, path) for path in parsed["decision-log"]]
    sources += [logs.LogSource(logs.AUDIT, path) for path in parsed["audit-log"]]
    try:
        await index.read(sources, seconds=parsed["log-timeout"])
        yield logs.LogEvidence(server, index, trusted_users=parsed["trusted-users"])
    except logs.LogFileError as error:
        raise UserError(str(error)) from error
    finally:
        index.close()
