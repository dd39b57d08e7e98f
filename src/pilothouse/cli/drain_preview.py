"""``pilothouse snapshot drain``: simulates the drain of nodes."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pilothouse.cli.clientside import command_connection
from pilothouse.cli.program import UserError, serve
from pilothouse.cli.terminal import escaped
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import Parsed

if TYPE_CHECKING:
    from pilothouse.simulate.drain_preview import DrainOptions, Pending, Preview
    from pilothouse.snapshots.restoring import Restored

with lazy_imports():
    from pilothouse.client import errors
    from pilothouse.env import temporary
    from pilothouse.machinery import labels
    from pilothouse.simulate import drain_preview, progress
    from pilothouse.simulate.scenario import scalars
    from pilothouse.snapshots import file_format, opening, saving

_SHOWN = 10


def run(program: str, parsed: Parsed) -> int:
    """Drain. Returns the exit code."""
    words = list(parsed.arguments[1:])
    try:
        for name in ("include-secret-values", "anonymize", "exclude", "data-dir"):
            if name in parsed.given:
                raise UserError(f"--{name} is not for drain", code=2)
        if parsed["output"] not in {"text", "json"}:
            raise UserError(f'-o is text or json, got "{parsed["output"]}"', code=2)
        file = "" if parsed["live"] or not words else words.pop(0)
        if not file and not parsed["live"]:
            raise UserError(f'expected "{program} drain FILE NODE..." or "{program} drain --live NODE..."', code=2)
        if not words and not parsed["selector"]:
            raise UserError("drain needs the names of nodes, or --selector", code=2)
        return _drain(program, parsed, file, _options(parsed, words))
    except UserError as error:
        print(f"Error: {escaped(str(error))}", file=sys.stderr)
        return error.code


def _options(parsed: Parsed, names: list[str]) -> "DrainOptions":
    try:
        labels.parse_selector(parsed["selector"])
    except labels.SelectorError as error:
        raise UserError(f"--selector: {error}", code=2) from error
    if parsed["timeout"] <= 0:
        raise UserError("--timeout must be positive", code=2)
    return drain_preview.DrainOptions(
        names=tuple(dict.fromkeys(names)),
        selector=parsed["selector"],
        timeout=parsed["timeout"],
        grace_period=None if parsed["grace-period"] < 0 else float(parsed["grace-period"]),
        force=parsed["force"],
        parallel=parsed["parallel"],
    )


def _drain(program: str, parsed: Parsed, file: str, options: "DrainOptions") -> int:
    with temporary.directory() as directory:
        if not file:
            file = str(directory / "cluster.snapshot")
            code = serve(program, _save(parsed, Path(file)), v=parsed["v"], waits=True)
            if code:
                return code
        restored = _restored(file)
    try:
        with progress.phases(sys.stderr) as report:
            preview = drain_preview.preview(restored, options, seed=parsed["seed"], progress=report)
    except drain_preview.UnknownNodes as error:
        raise UserError(str(error)) from error
    if parsed["output"] == "json":
        print(msgspec.json.format(msgspec.json.encode({"succeeded": preview.succeeded, **_builtins(preview)})).decode())
    else:
        for line in described(preview):
            print(escaped(line))
    return 0 if preview.succeeded else 1


async def _save(parsed: Parsed, path: Path) -> int:
    env = Env()
    async with command_connection(parsed, env, "pilothouse-snapshot") as (client, _info, _own):
        try:
            saved = await saving.save(client, env, path, saving.SaveOptions(exclude=("events",)))
        except (errors.ApiError, ConnectionError, TimeoutError) as error:
            raise UserError(f"the cluster can't be read: {error}") from error
    for skipped in saved.totals.skipped[:_SHOWN]:
        print(escaped(f"warning: {skipped.resource} could not be read: {skipped.reason}"), file=sys.stderr)
    return 0


def _restored(file: str) -> "Restored":
    try:
        return opening.restored(file)
    except file_format.SnapshotError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error


def _builtins(preview: "Preview") -> dict[str, object]:
    builtins: dict[str, object] = msgspec.to_builtins(preview)
    return builtins


def described(preview: "Preview") -> Iterator[str]:
    """The result as text."""
    if preview.busy:
        limit = scalars.shown_seconds(drain_preview.BUSY_SETTLE_SECONDS)
        yield f"the cluster was not quiet within {limit}, so the drain began while it wrote: {', '.join(preview.busy)}"
        yield ""
    for node in preview.nodes:
        duration = scalars.shown_seconds(node.seconds)
        if node.drained:
            yield f"node {node.name}: drained in {duration}, {scalars.counted(node.pods, 'pod')} evicted"
        else:
            yield f"node {node.name}: NOT drained after {duration}: {node.reason}"
    if preview.workloads:
        yield ""
        yield f"{scalars.counted(len(preview.workloads), 'workload')} had fewer ready pods than before:"
        rows = [("WORKLOAD", "READY", "LEAST", "END", "FEWER FOR")]
        for workload in preview.workloads[:_SHOWN]:
            name = f"{workload.kind.lower()}/{workload.namespace}/{workload.name}"
            duration = scalars.shown_seconds(workload.seconds) + ", and at the end" * (workload.end < workload.ready)
            rows.append((name, str(workload.ready), str(workload.least), str(workload.end), duration))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for row in rows:
            yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        yield from _more(len(preview.workloads))
    yield from _pending("found no place", [pod for pod in preview.pending if not pod.before])
    yield from _pending("pending as before the drain", [pod for pod in preview.pending if pod.before])
    yield ""
    rest = f"at rest {scalars.shown_seconds(preview.seconds)} after the drain began"
    if not preview.at_rest:
        limits = drain_preview.BUSY_SETTLE_SECONDS, drain_preview.SETTLE_SECONDS
        rest = f"NOT at rest {scalars.shown_seconds(limits[not preview.busy])} after the drain"
    yield f"{scalars.counted(preview.objects, 'object')} restored, {scalars.counted(preview.writes, 'write')}, {rest}"


def _pending(description: str, pods: "Sequence[Pending]") -> Iterator[str]:
    if pods:
        yield ""
        yield f"{scalars.counted(len(pods), 'pod')} {description}:"
        for pod in pods[:_SHOWN]:
            yield f"  {pod.namespace}/{pod.name}: {pod.reason or 'not scheduled yet'}"
        yield from _more(len(pods))


def _more(count: int) -> Iterator[str]:
    if count > _SHOWN:
        yield f"  and {count - _SHOWN:,} more (-o json has all)"
