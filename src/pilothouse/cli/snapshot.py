"""``pilothouse snapshot``: saves a cluster to a file, and shows or restores it."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.cli.clientside import command_connection, command_flags, common_flags
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.cli.terminal import escaped
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, DURATION, INT32, STRING, STRINGS, Flag, FlagSet, Parsed

if TYPE_CHECKING:
    from pilothouse.snapshots.file_format import Skipped

with lazy_imports():
    from pilothouse.cli import drain_preview
    from pilothouse.client import errors
    from pilothouse.snapshots import anonymizing, data_directory, etcd_snapshot, file_format, opening, reading, saving

USAGE = """Saves a cluster to a file, and restores it.

`save` reads everything that may be listed. `show` describes a file. `restore` creates a data directory from it, for
`up --data-dir`; `up --snapshot` needs none. `drain` drains nodes of the cluster in a file in virtual time, and prints
the effects; with --live of the kubeconfig's cluster, which is only read. `show`, `restore` and `drain` also accept
files of `etcdctl snapshot save`.

Usage:
  {program} save FILE [flags]
  {program} show FILE
  {program} restore FILE --data-dir DIR [flags]
  {program} drain FILE NODE... [flags]
  {program} drain --live NODE... [flags]

The exit code of `drain` is 0 if all nodes were drained and every pod was scheduled, otherwise 1.
"""
_PARTIAL = 3
"""The exit code if not everything was saved."""
_SHOWN = 20
_MAX_WORDS = 10_000
_OF_DRAIN = ("live", "selector", "timeout", "grace-period", "force", "parallel", "seed", "output")


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "snapshot",
        Flag(
            "include-secret-values",
            BOOL,
            False,
            "save: with the values of Secrets. Without it their keys are saved, and placeholders",
        ),
        Flag(
            "anonymize",
            BOOL,
            False,
            "save: replace names, labels, images and all other user-chosen text, and leave out values and events",
        ),
        Flag("exclude", STRINGS, (), "save: resources to leave out, such as events or widgets.example.com"),
        Flag(
            "data-dir", STRING, "", "restore: the data directory to create; an existing one must not contain a cluster"
        ),
    )
    flags.add(
        "drain",
        Flag("live", BOOL, False, "Read the cluster of the kubeconfig instead of a file"),
        Flag(
            "selector",
            STRING,
            "",
            "Label selector of nodes to drain, in addition to those given by name",
            shorthand="l",
        ),
        Flag("timeout", DURATION, 3600.0, "Virtual time that the drain of a node may take"),
        Flag("grace-period", INT32, -1, "Grace period of each pod in seconds; -1: the one of the pod"),
        Flag("force", BOOL, False, "Drain nodes with pods that no controller would create again"),
        Flag("parallel", BOOL, False, "Drain all nodes at once, rather than one after the other"),
        Flag("seed", INT32, 0, "The seed of all random choices in the run"),
        Flag("output", STRING, "text", "Output format: text or json", shorthand="o"),
    )
    command_flags(flags, qps=50.0, burst=100)
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Save, show or restore."""
    parsed = parse(flag_set(program), program, args, most=_MAX_WORDS)
    if isinstance(parsed, int):
        return parsed
    if parsed.arguments[:1] == ("drain",):
        return drain_preview.run(program, parsed)
    return serve(program, _run(parsed, program), v=parsed["v"], waits=True)


async def _run(parsed: Parsed, program: str) -> int:
    actions = {"save": _save, "show": _show, "restore": _restore}
    if len(parsed.arguments) != 2 or parsed.arguments[0] not in actions:
        usages = [*(f"{name} FILE" for name in actions), "drain FILE NODE..."]
        expected = ", ".join(f'"{program} {usage}"' for usage in usages)
        raise UserError(f"expected one of {expected}, got {' '.join(parsed.arguments) or 'nothing'}", code=2)
    action, path = parsed.arguments
    if parsed["data-dir"] and action != "restore":
        raise UserError("--data-dir is for restore", code=2)
    for name in _OF_DRAIN:
        if name in parsed.given:
            raise UserError(f"--{name} is for drain", code=2)
    try:
        return await actions[action](parsed, Path(path))
    except file_format.SnapshotError as error:
        raise UserError(escaped(str(error))) from error
    except OSError as error:
        raise UserError(f"{error.filename or path}: {error.strerror or error}") from error


async def _save(parsed: Parsed, path: Path) -> int:
    if await asyncio.to_thread(path.is_dir):
        raise UserError(f"{path} is a directory: name a file", code=2)
    env = Env()
    exclude = tuple(parsed["exclude"])
    if parsed["anonymize"]:
        if parsed["include-secret-values"]:
            raise UserError("--anonymize and --include-secret-values can't be used together", code=2)
        exclude += ("events",)
    options = saving.SaveOptions(
        secret_values=parsed["include-secret-values"],
        anonymize=anonymizing.Anonymizer() if parsed["anonymize"] else None,
        exclude=exclude,
    )
    async with command_connection(parsed, env, "pilothouse-snapshot") as (client, _info, _own):
        try:
            saved = await saving.save(client, env, path, options)
        except (errors.ApiError, ConnectionError, TimeoutError) as error:
            raise UserError(f"no snapshot was saved: {error}") from error
    totals = saved.totals
    moment = f"resourceVersion {totals.newest}"
    if totals.oldest != totals.newest:
        moment = f"resourceVersions {totals.oldest} to {totals.newest}, so not all of one moment"
    print(f"saved {totals.objects:,} objects of {saved.resources} resources in {path} ({saved.size:,} bytes), {moment}")
    print_skipped(totals.skipped, "could not be saved")
    return _PARTIAL if totals.skipped else 0


async def _show(parsed: Parsed, path: Path) -> int:
    if etcd_snapshot.is_etcd_snapshot(path):
        restored = opening.restored(path)
        counts = Counter(_group_resource(record.key) for record in restored.records)
        _print_contents(
            f"{path}: a snapshot of etcd, with the values of Secrets, up to resourceVersion {restored.revision}", counts
        )
        print_skipped(restored.skipped, "can't be restored")
        return 0
    file = reading.SnapshotFile(path)
    header = file.header
    counts = Counter(entry.resource.group_resource for entry in file.entries())
    secrets = "with the values of Secrets" if header.secret_values else "without the values of Secrets"
    names = ", anonymized" if header.anonymized else ""
    _print_contents(f"{path}: Kubernetes {header.server_version}, {header.time}, {secrets}{names}", counts)
    print_skipped(file.totals.skipped if file.totals is not None else (), "could not be saved")
    return 0


def _group_resource(key: str) -> str:
    """The resource of a key of the store, as ``deployments.apps``."""
    group, resource, _rest = key.split("/", 2)
    return f"{resource}.{group}" if group else resource


def _print_contents(title: str, counts: Counter[str]) -> None:
    print(escaped(title))
    for name, count in sorted(counts.items()):
        print(f"{count:>8,}  {escaped(name)}")
    print(f"{counts.total():>8,}  objects")


async def _restore(parsed: Parsed, path: Path) -> int:
    directory = parsed["data-dir"]
    if not directory:
        raise UserError("restore needs --data-dir: the data directory to make", code=2)
    restored = opening.restored(path)
    try:
        data_directory.create(directory, restored)
    except OSError as error:
        # Not of the file: a ``DataDirectoryError`` names the directory, other errors what they could not write.
        text = str(error) if error.errno is None else f"{error.filename or directory}: {error.strerror}"
        raise UserError(text) from error
    print(f"restored {len(restored.records):,} objects into {directory}: start it with")
    print(f"  pilothouse up --data-dir {directory}")
    print_skipped(restored.skipped, "is not in it")
    return 0


def print_skipped(skipped: "Iterable[Skipped]", noun: str) -> None:
    """Print a warning for everything that was left out."""
    lines = [f"warning: {skipped_item.resource} {noun}: {skipped_item.reason}" for skipped_item in skipped]
    for line in lines[:_SHOWN]:
        print(escaped(line), file=sys.stderr)
    if len(lines) > _SHOWN:
        print(f"warning: {len(lines) - _SHOWN} more", file=sys.stderr)
