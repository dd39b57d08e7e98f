"""``pilothouse history``: every change of one object in the API server's history, as differences."""

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.cli.clientside import command_connection, command_flags, common_flags, namespace_flag
from pilothouse.cli.program import UserError, serve
from pilothouse.cli.resource_arguments import (
    BeforeHistory,
    find_resource,
    history_begin,
    parse_for_object,
    revision_at,
    times_of_revisions,
    type_and_name,
)
from pilothouse.cli.terminal import escaped, escaped_json
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Gone
from pilothouse.client.history import RecordedChange, recorded_changes
from pilothouse.env import Env
from pilothouse.machinery.causes import Origin
from pilothouse.machinery.differences import ABSENT, Difference, differences, is_public_in_secrets, short_json
from pilothouse.machinery.flags import BOOL, STRING, Flag, FlagSet, Parsed
from pilothouse.why import ServerEvidence
from pilothouse.why.evidence import NO_ORIGINS, OTHER_SERVERS
from pilothouse.why.writes import Write, user_writes

USAGE = """Prints the changes of an object, also of a deleted one, as far back as the API server keeps history.

Without an object: the writes of users and their programs, but not of Kubernetes' components, in a namespace, or in the
cluster with -A (with pilothouse's API server only).

Usage:
  {program} TYPE/NAME [--since TIME] [flags]
  {program} [-n NAMESPACE | -A] [--since TIME] [flags]
"""
_QUIET_SECONDS = 2
"""A watch of a deleted object ends after that, because nothing indicates the last change."""
_ATTEMPTS = 5
_TOO_OLD = re.compile(r"too old resource version: \d+ \((\d+)\)")
"""The second number is the oldest that can be watched from (apiserver ``watch_cache.go``, v1.20 to v1.36)."""
_MASK = "***"
_SHOWN_FIELDS = 40
_SHOWN_TEXT = 160


class Version(msgspec.Struct, frozen=True):
    """One version of the object. ``managers`` wrote it, as far as its managed fields show."""

    type: str
    revision: str
    time: str
    managers: tuple[str, ...]
    changes: tuple[Difference, ...]
    origin: Origin | None = None
    """Who wrote it and why, if the API server provides that."""


Origins = Mapping[str, RecordedChange]
"""By resourceVersion."""


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "history",
        namespace_flag("the object"),
        Flag("all-namespaces", BOOL, False, "Writes in all namespaces, and of objects without one", shorthand="A"),
        Flag(
            "since",
            STRING,
            "",
            "Changes after a time such as 2026-01-01T00:00:00Z, or 5m for the last five minutes, or a resourceVersion; "
            "as far back as the history goes if empty",
        ),
        Flag("output", STRING, "text", "Output format: text or json (a line for each version)", shorthand="o"),
        Flag(
            "triggers",
            BOOL,
            False,
            "Print the events that triggered the controller's writes, if the API server records them",
        ),
        Flag("all-fields", BOOL, False, f"Print all changed fields; without it the first {_SHOWN_FIELDS} of a version"),
    )
    command_flags(flags, qps=200.0, burst=400)
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Print the history."""
    parsed = parse_for_object(flag_set(program), program, args, optional=True)
    if isinstance(parsed, int):
        return parsed
    if not parsed.arguments:
        return serve(program, _print_writes(parsed), v=parsed["v"], waits=True)
    if parsed["all-namespaces"]:
        print("Error: --all-namespaces is for the writes of users, without TYPE/NAME", file=sys.stderr)
        return 2
    return serve(program, _run(parsed), v=parsed["v"], waits=True)


async def _print_writes(parsed: Parsed) -> int:
    env = Env()
    async with command_connection(parsed, env, "pilothouse-history") as (client, _info, own):
        discovery = await client.discover()
        evidence = ServerEvidence(client, discovery)
        since = await _since(client, parsed["since"], env) if parsed["since"] else 0
        namespace = "" if parsed["all-namespaces"] else own
        try:
            writes, older = await user_writes(evidence, discovery, namespace=namespace, since=since)
        except ApiError as error:
            raise UserError(str(error)) from error
    if NO_ORIGINS in evidence.unseen:
        raise UserError(f"{NO_ORIGINS}; its audit log has that (pilothouse why --audit-log)")
    unreadable = [unseen for unseen in evidence.unseen if unseen != OTHER_SERVERS]
    if unreadable and not writes:
        raise UserError("; ".join(unreadable))
    if parsed["output"] == "json":
        for write in writes:
            print(escaped_json(msgspec.json.encode(write).decode()))
    else:
        print("\n".join(write_lines(writes)))
    for unseen in evidence.unseen:
        print(f"Not seen: {unseen}", file=sys.stderr)
    if older:
        print(f"{older} older writes are not shown; see --since", file=sys.stderr)
    elif not writes:
        scope = (
            f"in namespace {namespace}; -A is for all, and for objects without one" if namespace else "in the history"
        )
        recorded = "recorded " if OTHER_SERVERS in evidence.unseen else ""
        print(f"There are no {recorded}writes of users {scope}.", file=sys.stderr)
    return 0


async def _since(client: Client, text: str, env: Env) -> int:
    """The resourceVersion after which writes are printed; 0, with a note, for a time before the history."""
    try:
        return int(await revision_at(client, text, env.now()))
    except BeforeHistory:
        begin = await history_begin(client)
        if begin is not None:
            _print_begin(begin[0])
        return 0


def _print_begin(revision: object) -> None:
    print(f"The history that the API server keeps begins at resourceVersion {revision}.", file=sys.stderr)


def write_lines(writes: Sequence[Write]) -> list[str]:
    """A line for each write: time, change, and user."""
    return [
        escaped(
            " ".join(filter(None, (f"{write.time} ", write.namespace, write.object, f"{write.text}, by {write.by}")))
        )
        for write in writes
    ]


async def _run(parsed: Parsed) -> int:
    text, name = type_and_name(parsed.arguments)
    env, since = Env(), 0
    async with command_connection(parsed, env, "pilothouse-history") as (client, info, own):
        resource = find_resource(await client.discover(), text)
        if not resource.supports("list", "watch"):
            raise UserError(f"{resource.group_resource} can't be watched, so there is no history of them")
        namespace = own if resource.namespaced else ""
        if parsed["since"]:
            with contextlib.suppress(BeforeHistory):  # EXISTED, if printed, comes with a note of the begin
                since = int(await revision_at(client, parsed["since"], env.now()))
        try:
            oldest, documents = await versions(client, resource.as_kind(), namespace, name)
            time_of = await times_of_revisions(client)
            origins = await origins_of(client, resource.as_kind(), namespace, name)
        except ApiError as error:
            raise UserError(str(error)) from error
    if not documents:
        place = f" in namespace {namespace}" if namespace else ""
        raise UserError(
            f"there is no {resource.group_resource} {name}{place} ({info.title}), and was none since resourceVersion "
            f"{oldest}"
        )
    all_versions = list(described(documents, time_of, origins))
    shown = [version for version in all_versions if int(version.revision) > since]
    if not shown:
        last = all_versions[-1]
        print(
            f"There are no changes of {resource.group_resource} {name} since then; the last one "
            f"{f'was at {last.time}, ' if last.time else 'has '}resourceVersion {last.revision}.",
            file=sys.stderr,
        )
    elif shown[0].type == "EXISTED":
        _print_begin(oldest)
    for version in shown:
        if parsed["output"] == "json":
            print(json.dumps(_json(version)))
        else:
            if resource.group_resource == "secrets":
                version = without_values(version)
            lines = version_lines(version, all_fields=parsed["all-fields"], triggers=parsed["triggers"])
            print("\n".join(lines))
    return 0


async def origins_of(client: Client, kind: Kind[Any], namespace: str, name: str) -> Origins:
    """The origin of each change of the object; empty if the API server has none, or not for this user."""
    try:
        recorded = await recorded_changes(client, kind.group, kind.resource, namespace, name)
    except ApiError:
        return {}
    return {change.resource_version: change for change in recorded}


async def versions(
    client: Client, kind: Kind[Any], namespace: str, name: str
) -> tuple[int, list[tuple[str, dict[str, Any]]]]:
    """The oldest available resourceVersion, and the changes of the object since: the type of each event with the object
    after it; first, as EXISTED, the object at that time.

    Only uses requests that kube-apiserver supports.
    """
    since = 0
    for _ in range(_ATTEMPTS - 1):
        try:
            return await _versions(client, kind, namespace, name, since)
        except _WatchTooOld as error:
            since = error.since
        except Gone:
            continue  # The oldest one was compacted in the meantime.
    return await _versions(client, kind, namespace, name, since)


class _WatchTooOld(Gone):
    """The server lists objects as they were at a resourceVersion, and watches only from a later one, ``since``.

    kube-apiserver lists from etcd, and watches from its cache, which starts with the program.
    """

    def __init__(self, error: Gone, current: str) -> None:
        super().__init__(error.status)
        match = _TOO_OLD.search(str(error))
        self.since = int(match[1] if match else current)


async def _versions(
    client: Client, kind: Kind[Any], namespace: str, name: str, since: int
) -> tuple[int, list[tuple[str, dict[str, Any]]]]:
    raw, selector = kind.raw, f"metadata.name={name}"
    oldest = max(since, await _oldest_kept(client, raw, namespace))
    # Consistent: the watch continues from exactly that list.
    first = await client.list(
        raw, namespace, field_selector=selector, resource_version=str(oldest), resource_version_match="Exact"
    )
    # Items of lists have no kind, objects of events do.
    named = {"apiVersion": kind.api_version, "kind": kind.kind}
    versions_seen = [("EXISTED", named | msgspec.json.decode(item)) for item in first.items]
    now = await client.list(raw, namespace, field_selector=selector)
    target = max((_revision(msgspec.json.decode(item)) for item in now.items), default=0)
    if target and target <= oldest:
        return oldest, versions_seen
    watch = client.watch(
        raw,
        namespace,
        resource_version=str(oldest),
        field_selector=selector,
        allow_bookmarks=False,
        timeout_seconds=_QUIET_SECONDS,
    )
    try:
        async with watch as batches:
            async for batch in batches:
                versions_seen += [(event.type, msgspec.json.decode(event.object)) for event in batch]
                if target and _revision(versions_seen[-1][1]) >= target:
                    break
    except Gone as error:
        raise _WatchTooOld(error, now.metadata.resource_version) from error
    return oldest, versions_seen


async def _oldest_kept(client: Client, kind: Kind[Any], namespace: str) -> int:
    """By bisection: servers report that a resourceVersion is too old, but not which one is available."""
    page = await client.list(kind, namespace, limit=1)
    try:
        low, high = 0, int(page.metadata.resource_version)
    except ValueError as error:
        raise UserError("the resourceVersions of this API server are no numbers") from error
    while high - low > 1:
        middle = (low + high) // 2
        try:
            await client.list(kind, namespace, limit=1, resource_version=str(middle), resource_version_match="Exact")
        except Gone:
            low = middle
        else:
            high = middle
    return high


def described(
    documents: Sequence[tuple[str, dict[str, Any]]],
    time_of: Callable[[int], str],
    origins: Origins = MappingProxyType({}),
) -> Iterator[Version]:
    """Each version with its changes from the previous one."""
    old: dict[str, Any] = {}
    for kind, document in documents:
        is_new, is_gone = kind in ("EXISTED", "ADDED") or not old, kind == "DELETED"
        managers = [] if is_gone else _managers({} if is_new else old, document)
        revision = _revision(document)
        recorded = origins.get(str(revision)) if kind != "EXISTED" else None
        written = _second(recorded.time) if recorded is not None else ""
        yield Version(
            kind,
            str(revision),
            written or time_of(revision) or max((manager.get("time") or "" for manager in managers), default=""),
            tuple(dict.fromkeys(map(_manager, managers))),
            () if is_new else tuple(differences(old, document)),
            recorded.origin if recorded is not None else None,
        )
        old = {} if is_gone else document


def _managers(previous: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of managedFields that this version changed."""
    old = (previous.get("metadata") or {}).get("managedFields") or ()
    return [
        managed_field
        for managed_field in (after.get("metadata") or {}).get("managedFields") or ()
        if managed_field not in old
    ]


def _manager(entry: dict[str, Any]) -> str:
    subresource = entry.get("subresource")
    return f"{entry.get('manager') or 'unknown'}" + (f" ({subresource})" if subresource else "")


def _revision(document: dict[str, Any]) -> int:
    return int((document.get("metadata") or {}).get("resourceVersion") or 0)


def _second(time: str) -> str:
    """A time without its fraction, as the other times are."""
    return f"{time[:19]}Z" if time else ""


def without_values(version: Version) -> Version:
    """A version of a Secret with masked data, as in kubectl diff, because terminal output may be seen or recorded."""
    return msgspec.structs.replace(version, changes=tuple(map(_masked, version.changes)))


def _masked(change: Difference) -> Difference:
    if is_public_in_secrets(change.path):
        return change
    old, new = (value if value is ABSENT else _MASK for value in (change.before, change.after))
    return Difference(change.path, old, new)


def version_lines(version: Version, *, all_fields: bool, triggers: bool = False) -> Iterator[str]:
    """The version as text. Keys and managers may be any text, and are shown without control characters."""
    return map(escaped, _lines(version, all_fields=all_fields, triggers=triggers))


def _lines(version: Version, *, all_fields: bool, triggers: bool) -> Iterator[str]:
    by = _author(version.origin) if version.origin is not None else ", ".join(version.managers)
    yield f"{version.revision}  {version.time or 'time unknown':20}  {version.type}{f'  by {by}' if by else ''}"
    cause = version.origin.cause if version.origin is not None else None
    for trigger in cause.triggers if triggers and cause is not None else ():
        full_name = "/".join(part for part in (trigger.namespace, trigger.name) if part)
        at = f" at {trigger.resource_version}" if trigger.resource_version else ""
        yield f"    after {' '.join(part for part in (trigger.type, trigger.resource, full_name) if part)}{at}"
    changes = version.changes if all_fields else version.changes[:_SHOWN_FIELDS]
    for difference in changes:
        yield f"    {_line(difference)}"
    if len(changes) < len(version.changes):
        yield f"    and {len(version.changes) - len(changes)} more fields; see --all-fields"


def _author(origin: Origin) -> str:
    agent = origin.user_agent.partition(" ")[0]
    text = (origin.shown_user or "unknown") + (f" ({agent})" if agent else "")
    cause = origin.cause
    if cause is None:
        return text
    return f"{text}: {cause.component} {cause.key}".rstrip() + (f": {cause.decision}" if cause.decision else "")


def _line(change: Difference) -> str:
    if change.before is ABSENT:
        return f"+ {change.path}: {_short(change.after)}"
    if change.after is ABSENT:
        return f"- {change.path}: {_short(change.before)}"
    return f"  {change.path}: {_short(change.before)} -> {_short(change.after)}"


def _short(value: Any) -> str:
    return short_json(value, _SHOWN_TEXT)


def _json(version: Version) -> dict[str, Any]:
    changes = []
    for change in version.changes:
        values = {"before": change.before, "after": change.after}
        changes.append({"path": change.path} | {name: value for name, value in values.items() if value is not ABSENT})
    return {
        "type": version.type,
        "resourceVersion": version.revision,
        "time": version.time,
        "managers": version.managers,
        "changes": changes,
        **({"origin": msgspec.to_builtins(version.origin)} if version.origin is not None else {}),
    }
