"""``pilothouse get``: current or past objects."""

import datetime
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.cli.clientside import command_connection, command_flags, common_flags, namespace_flag
from pilothouse.cli.clusters import kind_words
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.cli.resource_arguments import find_resource, revision_at, times_of_revisions
from pilothouse.cli.standard_streams import takes_unicode
from pilothouse.cli.terminal import cell, escaped, escaped_json
from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.client.requests import collection_path, with_query
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.api_resources import Discovery
from pilothouse.machinery.flags import BOOL, STRING, Flag, FlagSet, Parsed
from pilothouse.machinery.times import parse_time

with lazy_imports():
    import yaml

    from pilothouse.apiserver import registry, resources
    from pilothouse.apiserver.registry.generic import printers

USAGE = """Prints objects, also as they were at an earlier time.

Usage:
  {program} TYPE [NAME] [flags]
  {program} all [flags]
"""
_FORMATS = ("", "wide", "name", "json", "yaml")
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class _Column(msgspec.Struct):
    name: str
    priority: int = 0


class _Row(msgspec.Struct):
    cells: list[Any]
    object: dict[str, Any]


class Table(msgspec.Struct, rename="camel"):
    """The response to ``as=Table``."""

    column_definitions: list[_Column]
    rows: list[_Row] = []


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "get",
        namespace_flag("the objects"),
        Flag("all-namespaces", BOOL, False, "Objects of all namespaces", shorthand="A"),
        Flag("selector", STRING, "", "Label selector", shorthand="l"),
        Flag("output", STRING, "", "Output format: wide, name, json or yaml; a table if empty", shorthand="o"),
        Flag(
            "at",
            STRING,
            "",
            "The time of the state: a resourceVersion, a time such as 2026-01-01T00:00:00Z, or 5m for five minutes ago "
            "(times with pilothouse's API server only); now if empty",
        ),
    )
    command_flags(flags, qps=50.0, burst=100)
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Print the objects."""
    parsed = parse(flag_set(program), program, args, most=2)
    if isinstance(parsed, int):
        return parsed
    complaint = ""
    if parsed["output"] not in _FORMATS:
        complaint = f'--output must be wide, name, json or yaml, got "{parsed["output"]}"'
    elif not parsed.arguments:
        complaint = "expected TYPE [NAME]"
    if complaint:
        print(f'Error: {complaint}\nSee "{program} --help" for usage.', file=sys.stderr)
        return 2
    return serve(program, _run_with_hint(parsed), v=parsed["v"], waits=True)


async def _run_with_hint(parsed: Parsed) -> int:
    """Resources such as ``clusters`` do not exist, unless a CustomResourceDefinition adds them: the error has a
    hint."""
    try:
        return await _run(parsed)
    except UserError as error:
        hint = kind_words.OBJECTS.get(parsed.arguments[0])
        if hint is None:
            raise
        raise UserError(f"{error}; {hint}", code=error.code) from error


async def _run(parsed: Parsed) -> int:
    text, _slash, name = parsed.arguments[0].partition("/")
    name = name or "".join(parsed.arguments[1:])
    env = Env()
    async with command_connection(parsed, env, "pilothouse-get") as (client, info, own):
        kinds = _kinds(await client.discover(), text, name)
        query: dict[str, str] = {"labelSelector": parsed["selector"]}
        if name:
            query["fieldSelector"] = f"metadata.name={name}"
        time = ""
        if parsed["at"]:
            query["resourceVersion"] = await revision_at(client, parsed["at"], env.now())
            query["resourceVersionMatch"] = "Exact"
            time = (await times_of_revisions(client))(int(query["resourceVersion"]))
        request = _Request(
            query,
            parsed["output"],
            name,
            time,
            info.title,
            everywhere=parsed["all-namespaces"],
            several=len(kinds) > 1,
        )
        try:
            if parsed["at"]:
                namespace = request.namespace(kinds[0], own)
                await _check_reached(client, kinds[0], namespace, query["resourceVersion"])
            await _print(client, kinds, own, request)
        except ApiError as error:
            raise UserError(str(error)) from error
    return 0


class _Request(msgspec.Struct, frozen=True):
    query: dict[str, str]
    output: str
    name: str
    time: str
    """The resourceVersion of the state; empty for now, or if it is unknown."""
    cluster: str
    everywhere: bool
    several: bool
    """Whether objects of several kinds are requested."""

    def namespace(self, kind: Kind[Any], namespace: str) -> str:
        """That of a request."""
        return "" if self.everywhere or not kind.namespaced else namespace


def _kinds(discovery: Discovery, text: str, name: str) -> list[Kind[Any]]:
    """The resources for ``text``: a resource, a category such as ``all``, or several separated by commas. Raises
    ``UserError``."""
    kinds: list[Kind[Any]] = []
    for part in text.split(","):
        category = [
            resource
            for resource in discovery.preferred_resources()
            if part in resource.categories and resource.supports("list")
        ]
        kinds += [resource.as_kind() for resource in category] or [find_resource(discovery, part).as_kind()]
    if name and len(kinds) > 1:
        raise UserError(f"{text} stands for several resources, of which none is asked for by name", code=2)
    return kinds


async def _check_reached(client: Client, kind: Kind[Any], namespace: str, revision: str) -> None:
    """Raises ``UserError`` for a future resourceVersion: an API server would wait for it, and then return an error that
    clients retry. Only lists what the command lists: a user may have no rights in other namespaces."""
    newest = (await client.list(kind.raw, namespace, limit=1)).metadata.resource_version
    if newest.isdigit() and int(newest) < int(revision):
        raise UserError(f"the API server is at resourceVersion {newest}, before {revision}", code=2)


def yaml_text(document: Any) -> str:
    """YAML without invisible characters, and such that standard output lacks: a text that has some is written in ASCII,
    as its plain style cannot escape."""
    text = str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    if not takes_unicode() or any(line != escaped(line) for line in text.split("\n")):
        text = str(yaml.safe_dump(document, sort_keys=False, allow_unicode=False))
    return text


async def _print(client: Client, kinds: Sequence[Kind[Any]], namespace: str, request: _Request) -> None:
    if request.output in ("json", "yaml"):
        await _print_documents(client, kinds, namespace, request)
        return
    tables = [(kind, await _table(client, kind, namespace, request)) for kind in kinds]
    filled = [(kind, table) for kind, table in tables if table.rows]
    if request.name and not filled:
        raise _missing(kinds[0], namespace, request)
    if request.output == "name":
        for kind, table in filled:
            for row in table.rows:
                print(f"{kind.group_resource}/{row.object['metadata']['name']}")
        return
    if not filled:
        within = request.namespace(kinds[0], namespace)
        print(f"No resources found{f' in {within} namespace' if within else ''}.", file=sys.stderr)
    for number, (kind, table) in enumerate(filled):
        if number:
            print()
        if request.several:
            _name_kinds(kind, table)
        several = request.everywhere and kind.namespaced
        print("\n".join(table_lines(table, wide=request.output == "wide", with_namespace=several)))


async def _print_documents(client: Client, kinds: Sequence[Kind[Any]], namespace: str, request: _Request) -> None:
    documents = []
    for kind in kinds:
        target = with_query(collection_path(kind, request.namespace(kind, namespace)), **request.query)
        document = msgspec.json.decode((await client.request("GET", target)).body)
        documents.append(document)
        if request.several:
            document["items"] = [
                {"kind": kind.kind, "apiVersion": kind.api_version, **item} for item in document["items"]
            ]
        elif request.name and not document["items"]:
            raise _missing(kind, namespace, request)
        elif request.name:
            documents = [{"kind": kind.kind, "apiVersion": kind.api_version, **document["items"][0]}]
    document = documents[0]
    if request.several:
        document = {
            "kind": "List",
            "apiVersion": "v1",
            "items": [item for listed in documents for item in listed["items"]],
        }
    text = msgspec.json.format(msgspec.json.encode(document), indent=4).decode() + "\n"
    print(escaped_json(text) if request.output == "json" else yaml_text(document), end="")


async def _table(client: Client, kind: Kind[Any], namespace: str, request: _Request) -> Table:
    included = {"includeObject": "Object"} if request.time else {}
    target = with_query(collection_path(kind, request.namespace(kind, namespace)), **request.query, **included)
    response = await client.request("GET", target, headers={"accept": _TABLE})
    table = msgspec.json.decode(response.body, type=Table)
    if request.time:
        set_ages(table, kind, parse_time(request.time))
    return table


def set_ages(table: Table, kind: Kind[Any], time: datetime.datetime) -> None:
    """Compute the cells for a past time, because the API server computes ages and durations for now: all cells of
    built-in types, of others the column AGE. The rows have complete objects."""
    names = [column.name for column in table.column_definitions]
    own = _built_in_printer(kind)
    if own is not None and [column.name for column in own.columns] == names:
        for row in table.rows:
            row.cells = own.row(row.object, time)
        return
    for index, name in enumerate(names):
        if name == "Age":
            for row in table.rows:
                row.cells[index] = printers.age(row.object["metadata"].get("creationTimestamp"), time)


def _built_in_printer(kind: Kind[Any]) -> "printers.Printer | None":
    if not any((info.group, info.resource) == (kind.group, kind.resource) for info in resources.built_in()):
        return None
    printer = registry.registration_of(kind.group, kind.resource).printer
    return printer() if printer is not None else None


def _name_kinds(kind: Kind[Any], table: Table) -> None:
    """Put the kind before the names, as kubectl does where there are several."""
    index = next((n for n, column in enumerate(table.column_definitions) if column.name == "Name"), None)
    singular = kind.kind.lower() + (f".{kind.group}" if kind.group else "")
    for row in table.rows if index is not None else ():
        row.cells[index or 0] = f"{singular}/{row.cells[index or 0]}"


def _missing(kind: Kind[Any], namespace: str, request: _Request) -> UserError:
    within = request.namespace(kind, namespace)
    namespace_text = f" in namespace {within}" if within else ""
    return UserError(f'{kind.group_resource} "{request.name}" not found{namespace_text} ({request.cluster})')


def table_lines(table: Table, *, wide: bool, with_namespace: bool) -> list[str]:
    """The table as kubectl aligns it: columns as wide as their longest cell, three spaces between them."""
    chosen = [index for index, column in enumerate(table.column_definitions) if wide or not column.priority]
    lines = [[escaped(table.column_definitions[index].name.upper()) for index in chosen]]
    lines += [
        ["<none>" if row.cells[index] is None else cell(str(row.cells[index])) for index in chosen]
        for row in table.rows
    ]
    if with_namespace:
        namespaces = ["NAMESPACE", *(row.object["metadata"].get("namespace", "") for row in table.rows)]
        lines = [[namespace, *line] for namespace, line in zip(namespaces, lines, strict=True)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["   ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
