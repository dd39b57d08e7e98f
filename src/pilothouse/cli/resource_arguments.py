"""Parses resource types, names and times in the arguments of commands."""

import datetime
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence

import msgspec

from pilothouse.cli.program import UserError, parse
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Gone, NotFound
from pilothouse.client.requests import invalid_name, with_query
from pilothouse.machinery.api_resources import Discovery, Resource
from pilothouse.machinery.durations import parse_duration
from pilothouse.machinery.flags import FlagSet, Parsed, closest
from pilothouse.machinery.times import TimeError, format_micro_time, parse_time

_HISTORY = "/debug/history"
_FORMATS = ("text", "json")


class BeforeHistory(UserError):
    """A time is before the history of the API server."""


class _Mark(msgspec.Struct, rename="camel"):
    time: str
    resource_version: str


class _Marks(msgspec.Struct):
    marks: list[_Mark]


def type_and_name(arguments: Sequence[str]) -> tuple[str, str]:
    """``TYPE/NAME`` or ``TYPE NAME``. Raises ``UserError``."""
    if len(arguments) == 1:
        kind, _slash, name = arguments[0].partition("/")
    elif len(arguments) == 2 and "/" not in arguments[0]:
        kind, name = arguments
    else:
        kind = name = ""
    if not kind or not name:
        raise UserError(f"expected TYPE/NAME, got {' '.join(arguments) or 'nothing'}", code=2)
    _check_name(name)
    return kind, name


def _check_name(name: str) -> None:
    if reason := invalid_name(name):
        raise UserError(f"invalid resource name {name!r}: {reason}", code=2)


def parse_for_object(flags: FlagSet, program: str, args: Sequence[str], *, optional: bool = False) -> Parsed | int:
    """Parse the flags and ``TYPE/NAME`` of a command about one object that prints text or JSON. Returns an exit code
    for ``--help`` or an invalid command line, which is printed. ``optional``: the object may be left out."""
    parsed = parse(flags, program, args, most=2)
    if isinstance(parsed, int):
        return parsed
    try:
        if parsed["output"] not in _FORMATS:
            raise UserError(f'--output must be text or json, got "{parsed["output"]}"', code=2)
        if parsed.arguments or not optional:
            type_and_name(parsed.arguments)
        _check_name(parsed["namespace"])
    except UserError as error:
        print(f'Error: {error}\nSee "{program} --help" for usage.', file=sys.stderr)
        return error.code
    return parsed


def find_resource(discovery: Discovery, text: str) -> Resource:
    """The resource for ``text`` as kubectl resolves it: a plural, singular, kind or short name, also with its group
    (``deployments.apps``, ``deployments.v1.apps``). Raises ``UserError``."""
    name, _dot, rest = text.lower().partition(".")
    preferred = discovery.preferred_resources()
    matching = [resource for resource in preferred if name in (resource.name, resource.singular, resource.kind.lower())]
    for resource in matching or [resource for resource in preferred if name in resource.short_names]:
        if rest in ("", resource.group):
            return resource
    version, _dot, group = rest.partition(".")
    for resource in discovery.resources():
        if (resource.version, resource.group) == (version, group) and name in (
            resource.name,
            resource.singular,
            resource.kind.lower(),
        ):
            return resource
    near = closest(name, [known for resource in preferred for known in (resource.name, resource.singular)])
    hint = f" (did you mean {near}?)" if near else ""
    raise UserError(f'the server doesn\'t have a resource type "{text}"{hint}')


async def revision_at(client: Client, text: str, now: datetime.datetime) -> str:
    """The resourceVersion for ``text``: a resourceVersion, a time (``2026-01-01T00:00:00Z``), or a duration ago
    (``5m``). Only pilothouse's API server supports times. Raises ``UserError``, for a time
    that is too early ``BeforeHistory``."""
    if text.isascii() and text.isdigit() and int(text) > 0:
        return text
    try:
        at = parse_time(text)
    except TimeError:
        try:
            at = now - datetime.timedelta(seconds=parse_duration(text))
        except (ValueError, OverflowError):
            raise UserError(
                f'"{text}" is no resourceVersion, no time such as 2026-01-01T00:00:00Z and no time ago such as 5m',
                code=2,
            ) from None
    try:
        response = await client.request("GET", with_query(_HISTORY, at=format_micro_time(at)))
    except NotFound as error:
        raise UserError(
            "only pilothouse's API server knows which resourceVersion was current at a time; give a resourceVersion",
            code=2,
        ) from error
    except Gone as error:
        raise BeforeHistory(str(error)) from error
    except ApiError as error:
        raise UserError(str(error)) from error
    return msgspec.json.decode(response.body, type=_Mark).resource_version


async def times_of_revisions(client: Client) -> Callable[[int], str]:
    """Returns a function that gives the time of a resourceVersion, to a second; "" if the API server has no history of
    times."""
    marks = await _marks(client)
    revisions = [int(mark.resource_version) for mark in marks]

    def time_of(revision: int) -> str:
        index = bisect_right(revisions, revision)
        return marks[index - 1].time if index else ""

    return time_of


async def history_begin(client: Client) -> tuple[str, datetime.datetime] | None:
    """The oldest resourceVersion in the history of the API server, and its time; None if it has no history of times."""
    marks = await _marks(client)
    return (marks[0].resource_version, parse_time(marks[0].time)) if marks else None


async def _marks(client: Client) -> list[_Mark]:
    try:
        response = await client.request("GET", _HISTORY)
    except ApiError:  # Another API server, or forbidden: times are optional.
        return []
    return msgspec.json.decode(response.body, type=_Marks).marks
