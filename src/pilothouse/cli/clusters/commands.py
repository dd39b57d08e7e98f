"""``pilothouse create cluster``, ``list``, ``stop``, ``start``, ``delete``, ``logs``, ``kubeconfig`` and ``load``."""

import asyncio
import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pilothouse import KUBERNETES_VERSION
from pilothouse.apiserver.registry.generic.printers import human_duration
from pilothouse.cli import apply_manifests, kubeconfig_text, up
from pilothouse.cli import manifests as manifest_files
from pilothouse.cli.clientside import PATHS, common_flags, connected, namespace_flag
from pilothouse.cli.clusters import contexts, kind_words, process, sources
from pilothouse.cli.clusters.cluster import (
    DEFAULT_NAME,
    Cluster,
    Clusters,
    Damaged,
    Missing,
    Record,
    Unreadable,
    check_name,
    is_name,
)
from pilothouse.cli.program import UserError, check_number, ended_by_sigterm, parse, serve
from pilothouse.cli.terminal import escaped
from pilothouse.env import Env
from pilothouse.machinery.flags import BOOL, DURATION, INT, INT32, STRING, Flag, FlagSet, Parsed, closest
from pilothouse.machinery.times import format_time, parse_time

CHOSEN_HERE = (
    "data-dir", "write-kubeconfig", "wait", "filename", "recursive", "kustomize", "timeout", "kubeconfig", "help",
    "exit-on-stdin-close",
)  # fmt: skip
"""Flags of ``up`` that have another meaning for a cluster in the background, or none."""

_SIGNAL_CODE = 128
"""Exit codes after a signal are above."""
_MAX_SHOWN = 3
"""Manifests that are listed in a hint."""

CREATE_USAGE = """Creates a cluster that runs in the background, and adds its context to the kubeconfig of the user.

Usage:
  {program} cluster [NAME] [flags]

Every flag of `pilothouse up` that is not below is passed on.
"""
LIST_USAGE = """Lists the clusters in the background.

Usage:
  {program} [flags]
"""
LOGS_USAGE = """Prints the output of a cluster's process.

Usage:
  {program} [NAME] [flags]
"""
KUBECONFIG_USAGE = """Prints the kubeconfig of a cluster, or adds its context to the kubeconfig of the user.

Usage:
  {program} [NAME] [flags]
"""
LOAD_USAGE = """Applies manifests to a cluster, and waits until what they define is ready.

Usage:
  {program} [NAME] (-f PATH|URL ... | -k DIRECTORY) [flags]
"""
_ONE_USAGE = """{what}

Usage:
  {{program}} {word}[NAME ...] [flags]
"""
STOP_USAGE = _ONE_USAGE.format(what="Stops a cluster. Its data is kept.", word="")
START_USAGE = _ONE_USAGE.format(what="Starts a cluster that was stopped, or whose process has ended.", word="")
DELETE_USAGE = _ONE_USAGE.format(
    what="Deletes a cluster: its process, its data, and its context in the kubeconfig of the user.",
    word="cluster ",
)


def _common(flags: FlagSet) -> FlagSet:
    flags.add("global", Flag("help", BOOL, False, "Print this help", shorthand="h"))
    return flags


def create_flag_set(program: str) -> FlagSet:
    """Every flag of ``create``: its own, and those of ``up`` that it passes on."""
    flags = FlagSet(CREATE_USAGE.format(program=program), plain=True)
    flags.add(
        "cluster",
        Flag("kubeconfig", STRING, "", "Add the context to this file instead of $KUBECONFIG or ~/.kube/config"),
        Flag("no-context", BOOL, False, "Add no context to a kubeconfig"),
        *_source_flags(),
    )
    for group, members in up.flag_set(program).groups.items():
        flags.add(group, *(_as_passed_on(flag) for flag in members if flag.name not in CHOSEN_HERE))
    return _common(flags)


def _as_passed_on(flag: Flag) -> Flag:
    """The flag of ``up`` with the default that it has here."""
    if flag.name != "port":
        return flag
    return msgspec.structs.replace(
        flag, default=0, help=f"{flag.help}; without this flag a free one from 20000 to 29999"
    )


def _source_flags() -> tuple[Flag, ...]:
    return (
        Flag("filename", PATHS, (), "Manifest, directory of manifests or URL; - for standard input; repeatable", "f"),
        Flag("recursive", BOOL, False, "Process the directories used in -f, --filename recursively", "R"),
        Flag("kustomize", STRING, "", "Directory with a kustomization, which kubectl builds", "k"),
        Flag("timeout", DURATION, 60.0, "How long to wait until the objects are ready; 0: don't wait"),
    )


def list_flag_set(program: str) -> FlagSet:
    """Every flag of ``list``."""
    flags = FlagSet(LIST_USAGE.format(program=program), plain=True)
    choices = ("table", "name", "json")
    flags.add("list", Flag("output", STRING, "table", "Output format: table, name or json", "o", choices=choices))
    return _common(flags)


def stop_flag_set(program: str) -> FlagSet:
    """Every flag of ``stop``."""
    flags = FlagSet(STOP_USAGE.format(program=program), plain=True)
    flags.add("stop", Flag("all", BOOL, False, "Stop all clusters. Those in memory keep running, which is an error"))
    return _common(flags)


def start_flag_set(program: str) -> FlagSet:
    """Every flag of ``start``."""
    flags = FlagSet(START_USAGE.format(program=program), plain=True)
    flags.add(
        "start",
        Flag("all", BOOL, False, "Start all clusters"),
        Flag("nodes", INT32, 0, "From now on this number of nodes; without this flag as many as before", shorthand="n"),
    )
    return _common(flags)


def delete_flag_set(program: str) -> FlagSet:
    """Every flag of ``delete``."""
    flags = FlagSet(DELETE_USAGE.format(program=program), plain=True)
    flags.add(
        "delete",
        Flag("all", BOOL, False, "Delete all clusters"),
        Flag("ignore-not-found", BOOL, False, "A cluster that does not exist is not an error"),
    )
    return _common(flags)


def logs_flag_set(program: str) -> FlagSet:
    """Every flag of ``logs``."""
    flags = FlagSet(LOGS_USAGE.format(program=program), plain=True)
    flags.add(
        "logs",
        Flag("follow", BOOL, False, "Print further lines as they come, until the cluster ends", "f"),
        Flag("tail", INT, 1000, "How many lines from the end to print"),
    )
    return _common(flags)


def kubeconfig_flag_set(program: str) -> FlagSet:
    """Every flag of ``kubeconfig``."""
    flags = FlagSet(KUBECONFIG_USAGE.format(program=program), plain=True)
    flags.add(
        "kubeconfig",
        Flag("path", BOOL, False, "Print the path of the file that the cluster writes"),
        Flag("merge", BOOL, False, "Add the context to the user's kubeconfig as the current one, and print nothing"),
        Flag("kubeconfig", STRING, "", "With --merge: this file instead of $KUBECONFIG or ~/.kube/config"),
    )
    return _common(flags)


def load_flag_set(program: str) -> FlagSet:
    """Every flag of ``load``."""
    flags = FlagSet(LOAD_USAGE.format(program=program), plain=True)
    flags.add("load", namespace_flag("objects that name none, and the only one if it is given"), *_source_flags())
    common_flags(flags)
    return flags


def _named(program: str, args: Sequence[str]) -> Sequence[str]:
    """The arguments after ``cluster``, which ``create`` and ``delete`` require. Raises ``UserError``."""
    if args and args[0] in {"-h", "--help"}:
        return args
    if not args or args[0] not in {"cluster", "clusters"}:
        verb = program.rpartition(" ")[2]
        if args and closest(args[0], ["cluster"]):
            command = shlex.join([*program.split(), "cluster", *args[1:]])
            raise UserError(f"{verb} {escaped(args[0])}? Did you mean `{escaped(command)}`?", code=2)
        name = args[0] if args and is_name(args[0]) else "[NAME]"
        raise UserError(f"{verb} what? `{program} cluster {name}`", code=2)
    hint = kind_words.of_flags(program, args[1:]) or kind_words.of_selection(f"{program} cluster", args[1:])
    if hint:
        raise UserError(hint, code=2)
    return args[1:]


def _check_single(program: str, arguments: Sequence[str]) -> None:
    """Raises ``UserError`` for a manifest in place of the name of a cluster, and for several names."""
    sources.check_no_files(arguments)
    check_number(program, arguments, 1)


def _parse(flags: FlagSet, program: str, args: Sequence[str], *, most: int) -> Parsed | int:
    """``parse`` for a command whose arguments are names of clusters, which users of other tools give by a flag."""
    if hint := kind_words.of_selection(program, args):
        with _printed(program) as code:
            raise UserError(escaped(hint), code=2)
        return code[0]
    return parse(flags, program, args, most=most)


@contextlib.contextmanager
def _printed(program: str) -> Iterator[list[int]]:
    """Print a ``UserError``; the exit code is in the list."""
    code = [0]
    try:
        yield code
    except UserError as error:
        hint = f'\nSee "{program} --help" for usage.' if error.code == 2 else ""
        print(f"Error: {error}{hint}", file=sys.stderr)
        code[0] = error.code


def create(program: str, args: Sequence[str]) -> int:
    """Create a cluster, and start it."""
    with _printed(program) as code:
        try:
            parsed = parse(create_flag_set(program), program, _named(program, args), most=len(args))
            if isinstance(parsed, int):
                return parsed
            _check_single(program, parsed.arguments)
            manifests = sources.manifests_of(parsed)
            record = _record(parsed)
            cluster = Clusters().create(record)
        except KeyboardInterrupt:
            print("\nInterrupted: no cluster was created", file=sys.stderr)
            raise
        code[0] = _create(parsed, cluster, manifests)
    return code[0]


def _record(parsed: Parsed) -> Record:
    """The record of a new cluster with these flags. Raises ``UserError``."""
    own = {flag.name for flag in _source_flags()} | {"kubeconfig", "no-context", "help", "in-memory"}
    flags = [f"--{name}={text}" for name in parsed.given if name not in own for text in parsed.texts[name]]
    name = parsed.arguments[0] if parsed.arguments else DEFAULT_NAME
    check_name(name)
    for flag in ("snapshot", "etcd-snapshot"):
        if parsed[flag] and not parsed["in-memory"]:
            raise UserError(
                f"--{flag} needs --in-memory: the cluster starts from the file each time. `pilothouse snapshot restore "
                "FILE --data-dir DIRECTORY` makes a cluster that is stored, for `pilothouse up --data-dir DIRECTORY`",
                code=2,
            )
    user_kubeconfig = None if parsed["no-context"] else contexts.user_kubeconfig(parsed["kubeconfig"])
    return Record(
        name=name,
        created=format_time(Env().now()),
        flags=tuple(flags),
        directory=str(Path.cwd()),
        in_memory=parsed["in-memory"],
        user_kubeconfig=str(user_kubeconfig or ""),
    )


def _create(parsed: Parsed, cluster: Cluster, manifests: "Sequence[manifest_files.Manifest]") -> int:
    name = cluster.name
    try:
        with cluster.starting(), ended_by_sigterm():
            if cluster.record.user_kubeconfig:
                contexts.check(cluster, Path(cluster.record.user_kubeconfig))
            started = _started(cluster)
    except BaseException as error:
        is_interrupted = isinstance(error, (KeyboardInterrupt, SystemExit))
        if is_interrupted:
            print(f'\nInterrupted: removing the cluster "{name}"', file=sys.stderr, flush=True)
        left = _remove_unfinished(cluster)
        if is_interrupted:
            print(left or "Nothing of it is left.", file=sys.stderr)
        raise
    _say_ready(cluster, started)
    code = _load(cluster, manifests, parsed["timeout"]) if manifests else 0
    if code and cluster.is_running:
        load, delete = f"`pilothouse load {name} {_shown_sources(parsed)}`", f"`pilothouse delete cluster {name}`"
        was_interrupted = code > _SIGNAL_CODE
        way = f"{load} applies the manifests again" if was_interrupted else f"Correct the manifests and {load}"
        print(f'The cluster "{name}" runs. {way}, or {delete}.', file=sys.stderr)
    return code


def _remove_unfinished(cluster: Cluster) -> str:
    """Remove a cluster whose creation has failed. Returns what is left, which is not the error to report."""
    process.end(cluster)
    left = ""
    try:
        asyncio.run(contexts.remove(cluster))
    except UserError as error:
        left = f"Its context {cluster.context} may be left in {cluster.record.user_kubeconfig}: {error}"
    with contextlib.suppress(FileNotFoundError):  # another command has deleted it
        cluster.remove()
    return left


def _started(cluster: Cluster) -> process.Started:
    """The cluster once it is ready, and its context is in the kubeconfig of the user."""
    try:
        started = process.start(cluster, print)
        if cluster.record.user_kubeconfig:  # the port or, in memory, the token may be another one
            asyncio.run(contexts.add(cluster, Path(cluster.record.user_kubeconfig)))
    except (UserError, FileNotFoundError) as error:
        if cluster.directory.exists():
            raise
        asyncio.run(contexts.remove(cluster))  # it may have been added after that
        raise UserError(f'cluster "{cluster.name}" was deleted by another command') from error
    return started


def _shown_sources(parsed: Parsed) -> str:
    """The flags with the manifests, abbreviated if there are many."""
    args = [f"-f {shlex.quote(path)}" for path in parsed["filename"]]
    if len(args) > _MAX_SHOWN:
        args = ["-f FILE"]
    if parsed["kustomize"]:
        args.append(f"-k {shlex.quote(parsed['kustomize'])}")
    if parsed["recursive"]:
        args.append("-R")
    return escaped(" ".join(args))


def _say_ready(cluster: Cluster, started: process.Started) -> None:
    """The cluster, its address, and the next commands."""
    record = cluster.record
    print(f'cluster "{cluster.name}" is ready: Kubernetes {KUBERNETES_VERSION}, {started.nodes}, {started.url}')
    storage = "in memory" if record.in_memory else f"and keeps its data in {_shown(cluster.data)}"
    print(f"It runs in the background, {storage}. Next:")
    kubectl = f"kubectl --context {shlex.quote(contexts.name_of(cluster))}"
    if not record.user_kubeconfig:
        kubectl = f"kubectl --kubeconfig {_shown(cluster.kubeconfig)}"
    name = "" if cluster.name == DEFAULT_NAME else f" {cluster.name}"
    print(f"  {kubectl} get nodes")
    if "--ui=true" in record.flags:
        print(f"  pilothouse ui --kubeconfig {_shown(cluster.kubeconfig)}")
    print(f"  pilothouse delete cluster{name}", flush=True)


def _shown(path: Path) -> str:
    """A path as a person writes it, and a shell reads it."""
    try:
        home = Path.home()
    except RuntimeError:  # it is unknown
        return str(path)
    # Containers that run as any user have HOME=/, which shortens nothing.
    is_short = path.is_relative_to(home) and home != Path("/") and " " not in str(path)
    return f"~/{path.relative_to(home)}" if is_short else str(path)


def list_(program: str, args: Sequence[str]) -> int:
    """Print the clusters."""
    flags = list_flag_set(program)
    parsed = parse(flags, program, [word for word in args if word not in {"cluster", "clusters"}])
    if isinstance(parsed, int):
        return parsed
    with _printed(program) as code:
        if parsed["output"] not in flags.flag("output").choices:
            raise UserError(f'--output must be table, name or json, got "{parsed["output"]}"', code=2)
        clusters = Clusters()
        rows = []
        for name in clusters.names():
            try:
                rows.append(_row(clusters.get(name)))
            except Unreadable as error:
                rows.append({"name": name, "status": "Unreadable", **dict.fromkeys(_OF_RECORD, "")})
                print(f"warning: {escaped(str(error))}", file=sys.stderr)
        if parsed["output"] == "json":
            print(msgspec.json.format(msgspec.json.encode(rows)).decode())
        elif parsed["output"] == "name":
            print("".join(f"{row['name']}\n" for row in rows), end="")
        elif not rows:
            print("no clusters; `pilothouse create cluster` makes one", file=sys.stderr)
        else:
            _print_table(rows)
    return code[0]


_OF_RECORD = ("server", "stored", "context", "created")
"""The content of the record of a cluster."""


def _row(cluster: Cluster) -> dict[str, Any]:
    record = cluster.record
    return {
        "name": record.name,
        "status": cluster.status,
        "server": _server(record),
        "stored": "in memory" if record.in_memory else str(cluster.data),
        "context": contexts.name_of(cluster) if record.user_kubeconfig else "",
        "created": record.created,
    }


def _server(record: Record) -> str:
    return f"https://127.0.0.1:{record.port}" if record.port else ""


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    now = Env().now()
    columns = ("NAME", "STATUS", "CONTEXT", "SERVER", "AGE", "STORED")
    lines = [columns]
    for row in rows:
        age = human_duration(now - parse_time(row["created"])) if row["created"] else "<unknown>"
        lines.append((row["name"], row["status"], row["context"] or "<none>", row["server"], age, row["stored"]))
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        print("   ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def stop(program: str, args: Sequence[str]) -> int:
    """Stop clusters."""
    return _each_named(stop_flag_set(program), program, args, _stop)


def _stop(cluster: Cluster) -> None:
    if cluster.record.in_memory:
        cluster.check_running()
        raise UserError(
            f'cluster "{cluster.name}" is in memory: nothing of it would be left; `pilothouse delete cluster '
            f"{cluster.name}` deletes it"
        )
    print(f'cluster "{cluster.name}" {"is stopped" if process.stop(cluster) else "was not running"}')


def start(program: str, args: Sequence[str]) -> int:
    """Start clusters."""
    flags = start_flag_set(program)
    for word in args:
        name = word.removeprefix("--").partition("=")[0]
        if word.startswith("--") and name not in flags and name in create_flag_set(program):
            text = f"unknown flag: --{name}: a cluster keeps the flags with which it was created, but for --nodes"
            print(f'Error: {text}\nSee "{program} --help" for usage.', file=sys.stderr)
            return 2
    parsed = _parse(flags, program, args, most=len(args))
    if isinstance(parsed, int):
        return parsed
    nodes = parsed["nodes"] if "nodes" in parsed.given else None
    with _printed(program) as code:
        if nodes is not None and nodes < 0:
            raise UserError(f"--nodes must not be negative, got {nodes}", code=2)
        code[0] = _each(
            _chosen_names(parsed), program, lambda cluster: _start(cluster, nodes), ignore_missing=parsed["all"]
        )
    return code[0]


def _start(cluster: Cluster, nodes: int | None) -> None:
    """``nodes``: the new number of nodes, None if it does not change."""
    if nodes is not None:
        if cluster.is_running:
            way = f"`pilothouse stop {cluster.name}` first"
            if cluster.record.in_memory:
                way = "it is in memory, and can only be created again"
            raise UserError(f'cluster "{cluster.name}" runs, and the number of its nodes is that of its start: {way}')
        others = [flag for flag in cluster.record.flags if not flag.startswith("--nodes=")]
        # Written when it is ready: if it does not start, it keeps its nodes.
        cluster.record = msgspec.structs.replace(cluster.record, flags=(*others, f"--nodes={nodes}"))
    if cluster.status == "Running" and cluster.record.started:
        print(f'cluster "{cluster.name}" runs already: {_server(cluster.record)}')
        return
    if cluster.record.in_memory:
        cluster.check_running()
    was_interrupted = cluster.status == "Interrupted"
    with cluster.starting(), ended_by_sigterm():
        started = _started(cluster)
    _say_ready(cluster, started)
    if was_interrupted:
        print(
            "note: the command that created it was interrupted. Manifests that were given to it have not been applied: "
            f"`pilothouse load {cluster.name} -f FILE` applies them.",
            file=sys.stderr,
        )


def delete(program: str, args: Sequence[str]) -> int:
    """Delete clusters."""
    with _printed(program) as code:
        args = _named(program, args)
        flags = delete_flag_set(program)
        parsed = parse(flags, program, args, most=len(args))
        if isinstance(parsed, int):
            return parsed
        ignore_missing = parsed["all"] or parsed["ignore-not-found"]
        code[0] = _each(_chosen_names(parsed), program, _delete, ignore_missing=ignore_missing, damaged=True)
    return code[0]


def _chosen_names(parsed: Parsed) -> Sequence[str]:
    """Those of the command line, of all clusters with ``--all``, or "" for the one that needs no name. Raises
    ``UserError``."""
    if parsed["all"] and parsed.arguments:
        raise UserError("--all and names can't be used together", code=2)
    return Clusters().names() if parsed["all"] else parsed.arguments or ("",)


def _delete(cluster: Cluster) -> None:
    """Nothing is written before the data is removed that must be: the disk may be full."""
    if not cluster.record.created:  # a damaged record: the context is most likely there
        with contextlib.suppress(UserError):
            cluster.record = msgspec.structs.replace(cluster.record, user_kubeconfig=str(contexts.user_kubeconfig("")))
    is_context_left = False
    try:
        process.end(cluster)
        try:
            asyncio.run(contexts.remove(cluster))
        except UserError:
            is_context_left = True
        cluster.remove()
    except FileNotFoundError:  # another command deletes it at the same time
        if cluster.directory.exists():
            raise
    if is_context_left:
        try:
            asyncio.run(contexts.remove(cluster))
        except UserError as error:
            left = f"its context {cluster.context} is left in {cluster.record.user_kubeconfig}"
            raise UserError(f'cluster "{cluster.name}" is deleted, but {left}: {error}') from error
    print(f'cluster "{cluster.name}" is deleted')


def _each_named(flags: FlagSet, program: str, args: Sequence[str], act: Callable[[Cluster], None]) -> int:
    """Apply a function to each cluster that the command line names."""
    parsed = _parse(flags, program, args, most=len(args))
    if isinstance(parsed, int):
        return parsed
    with _printed(program) as code:
        code[0] = _each(_chosen_names(parsed), program, act, ignore_missing=parsed["all"])
    return code[0]


def _each(
    names: Sequence[str],
    program: str,
    act: Callable[[Cluster], None],
    *,
    ignore_missing: bool = False,
    damaged: bool = False,
) -> int:
    """Apply a function to each cluster. An error is printed, and the next one follows. ``ignore_missing``: a missing
    cluster is not an error; ``damaged``: neither is a record that cannot be read."""
    worst = 0
    for name in names:
        with _printed(program) as code:
            try:
                cluster = Clusters().chosen(name)
            except Missing:
                if ignore_missing:
                    continue
                raise
            except Damaged as error:
                if not damaged:
                    raise
                cluster = error.cluster
            try:
                act(cluster)
            except (KeyboardInterrupt, SystemExit):
                print(f"\nInterrupted: {_left(cluster)}", file=sys.stderr)
                raise
        worst = max(worst, code[0])
    return worst


def _left(cluster: Cluster) -> str:
    """The state of a cluster after the command that changes it was interrupted."""
    try:
        current = Clusters(cluster.directory.parent).get(cluster.name)
    except Missing:
        return f'cluster "{cluster.name}" is deleted'
    except Unreadable as error:
        return str(error)
    if not current.is_running:
        return f'cluster "{current.name}" does not run; {current.way_out}'
    state = "runs" if current.record.started else "is being stopped: its process has not ended yet"
    return f'cluster "{current.name}" {state}'


def logs(program: str, args: Sequence[str]) -> int:
    """Print the log of a cluster."""
    parsed = _parse(logs_flag_set(program), program, args, most=1)
    if isinstance(parsed, int):
        return parsed
    with _printed(program) as code:
        if parsed["tail"] < 0:
            raise UserError(f"--tail must be at least 0, got {parsed['tail']}", code=2)
        cluster = contexts.chosen(parsed.arguments[0] if parsed.arguments else "")
        if not cluster.log.exists():
            raise UserError(f'cluster "{cluster.name}" has never run')
        for line in process.tail(cluster.log, parsed["tail"]):
            print(escaped(line))
        status = cluster.status
        if parsed["follow"] and cluster.is_running:
            for line in process.follow(cluster):
                print(escaped(line), flush=True)
            status = process.ended_status(cluster)
        sys.stdout.flush()
        if not status:
            print(f'cluster "{cluster.name}" was deleted', file=sys.stderr)
        elif status == "Failed":
            reason = "its process has ended by itself or was killed"
            print(f'cluster "{cluster.name}" does not run: {reason}; {cluster.way_out}', file=sys.stderr)
    return code[0]


def kubeconfig(program: str, args: Sequence[str]) -> int:
    """Print the kubeconfig of a cluster, or merge it."""
    parsed = _parse(kubeconfig_flag_set(program), program, args, most=1)
    if isinstance(parsed, int):
        return parsed
    with _printed(program) as code:
        cluster = contexts.chosen(parsed.arguments[0] if parsed.arguments else "")
        if parsed["path"]:
            print(cluster.kubeconfig)
        elif parsed["merge"]:
            asyncio.run(contexts.add(cluster, contexts.user_kubeconfig(parsed["kubeconfig"])))
        else:
            print(kubeconfig_text.dumped(contexts.cluster_document(cluster)), end="")
    return code[0]


def load(program: str, args: Sequence[str]) -> int:
    """Apply manifests to a cluster."""
    if hint := kind_words.of_images(args):
        with _printed(program) as code:
            raise UserError(hint, code=2)
        return code[0]
    parsed = _parse(load_flag_set(program), program, args, most=len(args))
    if isinstance(parsed, int):
        return parsed
    with _printed(program) as code:
        if not parsed["filename"] and not parsed["kustomize"]:
            paths = [word for word in parsed.arguments if os.path.exists(word) or "://" in word]
            raise UserError(f"load needs manifests: use -f {shlex.quote(paths[0]) if paths else 'or -k'}", code=2)
        _check_single(program, parsed.arguments)
        manifests = sources.manifests_of(parsed)
        name = parsed.arguments[0] if parsed.arguments else ""
        if not name:
            contexts.check_not_foreground()
        cluster = contexts.chosen(name)
        cluster.check_running()
        requested = parsed["namespace"]
        namespace = requested or contexts.namespace_of(cluster) or "default"
        if len(Clusters().names()) > 1 or not (name or contexts.is_current(cluster)):
            print(f'loads into cluster "{cluster.name}", namespace "{escaped(namespace)}"', flush=True)
        manifests = [
            msgspec.structs.replace(manifest, namespace=namespace, is_enforced=bool(requested))
            for manifest in manifests
        ]
        code[0] = _load(cluster, manifests, parsed["timeout"])
    return code[0]


def _load(cluster: Cluster, manifests: "Sequence[manifest_files.Manifest]", limit: float) -> int:
    async def apply() -> int:
        try:
            return await apply_manifests_to_cluster()
        except ConnectionError as error:
            if await asyncio.to_thread(process.was_lost, cluster):
                cluster.check_running()
            raise UserError(f'connection to cluster "{cluster.name}" lost: {error}') from error

    async def apply_manifests_to_cluster() -> int:
        flags = {"kubeconfig": str(cluster.kubeconfig), "master": "", "kube-api-qps": 0.0, "kube-api-burst": 0}
        async with connected(Parsed(flags, (), ()), Env(), "pilothouse-load") as client:
            if not limit:
                warned = apply_manifests.warned(client, print)
                async for applied_object in apply_manifests.applied(warned, manifests):
                    print(apply_manifests.applied_text(applied_object))
                return 0
            return await apply_manifests.apply_all(client, manifests, limit=limit)

    return serve("pilothouse load", apply(), v=-1, waits=True)
