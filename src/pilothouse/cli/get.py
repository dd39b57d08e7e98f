"""``pilothouse get``: objects as they are, or as they were."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.cli.clientside import command_connection, command_flags, common_flags, namespace_flag
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.cli.resource_arguments import find_resource, revision_at
from pilothouse.cli.terminal import cell, escaped, escaped_json
from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.client.requests import collection_path, with_query
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, STRING, Flag, FlagSet, Parsed

with lazy_imports():
    import yaml

USAGE = """Prints objects, also as they were at an earlier time.

Usage:
  {program} TYPE [NAME] [flags]
"""
_FORMATS = ("", "wide", "name", "json", "yaml")
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class _Column(msgspec.Struct):
    name: str
    priority: int = 0


class _Row(msgspec.Struct):
    cells: list[Any]
    object: dict[str, Any]


class _Table(msgspec.Struct, rename="camel"):
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


def run(program: str, words: Sequence[str]) -> int:
    """Print the objects."""
    parsed = parse(flag_set(program), program, words, most=2)
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
    return serve(program, _run(parsed), v=parsed["v"])


async def _run(parsed: Parsed) -> int:
    text, _slash, name = parsed.arguments[0].partition("/")
    name = name or "".join(parsed.arguments[1:])
    env = Env()
    async with command_connection(parsed, env, "pilothouse-get") as (client, _info, own):
        resource = find_resource(await client.discover(), text)
        kind = resource.as_kind()
        everywhere = parsed["all-namespaces"] or not kind.namespaced
        namespace = "" if everywhere else own
        query: dict[str, str] = {"labelSelector": parsed["selector"]}
        if name:
            query["fieldSelector"] = f"metadata.name={name}"
        if parsed["at"]:
            query["resourceVersion"] = await revision_at(client, parsed["at"], env.now())
            query["resourceVersionMatch"] = "Exact"
        try:
            if parsed["at"]:
                await _check_reached(client, kind, query["resourceVersion"])
            await _print(client, kind, namespace, query, parsed["output"], several=parsed["all-namespaces"], name=name)
        except ApiError as error:
            raise UserError(str(error)) from error
    return 0


async def _check_reached(client: Client, kind: Kind[Any], revision: str) -> None:
    """Raises ``UserError`` for a resourceVersion of the future: an API server waits for it, and then answers that the
    client should retry."""
    newest = (await client.list(kind.raw, limit=1)).metadata.resource_version
    if newest.isdigit() and int(newest) < int(revision):
        raise UserError(f"the API server is at resourceVersion {newest}, before {revision}", code=2)


def yaml_text(document: Any) -> str:
    """YAML without invisible characters: a text that has some is written in ASCII, as its plain style cannot escape."""
    text = str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    if any(line != escaped(line) for line in text.split("\n")):
        text = str(yaml.safe_dump(document, sort_keys=False, allow_unicode=False))
    return text


async def _print(
    client: Client, kind: Kind[Any], namespace: str, query: dict[str, str], output: str, *, several: bool, name: str
) -> None:
    target = with_query(collection_path(kind, namespace), **query)
    if output in ("json", "yaml"):
        document = msgspec.json.decode((await client.request("GET", target)).body)
        if name and document["items"]:
            document = {"kind": kind.kind, "apiVersion": kind.api_version, **document["items"][0]}
        elif name:
            raise _missing(kind, name)
        text = msgspec.json.format(msgspec.json.encode(document), indent=4).decode() + "\n"
        print(escaped_json(text) if output == "json" else yaml_text(document), end="")
        return
    response = await client.request("GET", target, headers={"accept": _TABLE})
    table = msgspec.json.decode(response.body, type=_Table)
    if name and not table.rows:
        raise _missing(kind, name)
    if output == "name":
        for row in table.rows:
            print(f"{kind.group_resource}/{row.object['metadata']['name']}")
    elif not table.rows:
        print(f"No resources found{f' in {namespace} namespace' if namespace else ''}.", file=sys.stderr)
    else:
        print("\n".join(table_lines(table, wide=output == "wide", with_namespace=several and kind.namespaced)))


def _missing(kind: Kind[Any], name: str) -> UserError:
    return UserError(f'{kind.group_resource} "{name}" not found')


def table_lines(table: _Table, *, wide: bool, with_namespace: bool) -> list[str]:
    """The table as kubectl aligns it: columns as wide as their longest cell, three spaces between them."""
    chosen = [place for place, each in enumerate(table.column_definitions) if wide or not each.priority]
    lines = [[escaped(table.column_definitions[place].name.upper()) for place in chosen]]
    lines += [
        ["<none>" if row.cells[place] is None else cell(str(row.cells[place])) for place in chosen]
        for row in table.rows
    ]
    if with_namespace:
        namespaces = ["NAMESPACE", *(row.object["metadata"].get("namespace", "") for row in table.rows)]
        lines = [[namespace, *line] for namespace, line in zip(namespaces, lines, strict=True)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["   ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
