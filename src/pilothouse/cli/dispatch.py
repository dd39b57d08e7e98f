"""The commands. Each is imported when it is used, so that ``pilothouse --help`` is fast."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence

import pilothouse
from pilothouse.cli import standard_streams
from pilothouse.cli.commands import COMMANDS
from pilothouse.cli.loading import interrupted_while_loading
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.memory import begin_startup

with lazy_imports():
    from pilothouse.cli import (
        apiserver,
        bugs,
        completion,
        envtest_assets,
        etcd,
        generate,
        get,
        history,
        kube_apiserver,
        man,
        manager,
        new,
        nodes,
        parent_process,
        record,
        replay,
        run,
        scheduler,
        simulate,
        snapshot,
        top,
        ui,
        up,
        why,
    )
    from pilothouse.cli.clusters import commands as clusters
    from pilothouse.cli.clusters import kind_words
    from pilothouse.machinery import flags

_PROGRAMS: Mapping[str, Callable[[], Callable[[str, Sequence[str]], int]]] = {
    "up": lambda: up.run,
    "create": lambda: clusters.create,
    "list": lambda: clusters.list_,
    "load": lambda: clusters.load,
    "kubeconfig": lambda: clusters.kubeconfig,
    "logs": lambda: clusters.logs,
    "stop": lambda: clusters.stop,
    "start": lambda: clusters.start,
    "delete": lambda: clusters.delete,
    "manager": lambda: manager.run,
    "apiserver": lambda: apiserver.run,
    "scheduler": lambda: scheduler.run,
    "nodes": lambda: nodes.run,
    "new": lambda: new.run,
    "run": lambda: run.run,
    "generate": lambda: generate.run,
    "get": lambda: get.run,
    "history": lambda: history.run,
    "why": lambda: why.run,
    "snapshot": lambda: snapshot.run,
    "record": lambda: record.run,
    "replay": lambda: replay.run,
    "top": lambda: top.run,
    "ui": lambda: ui.run,
    "simulate": lambda: simulate.run,
    "bugs": lambda: bugs.run,
    "envtest-assets": lambda: envtest_assets.run,
    "completion": lambda: completion.run,
    "man": lambda: man.run,
    "kube-apiserver": lambda: kube_apiserver.run,
    "etcd": lambda: etcd.run,
}
"""How each of ``COMMANDS`` is loaded, and the programs that run under another's name."""


def main(argv: Sequence[str] | None = None) -> int:
    """``pilothouse``. Returns the exit code."""
    args = _args(argv)
    return standard_streams.written(lambda: _main(args))


def _main(args: list[str]) -> int:
    if args[:1] == ["help"] and args[1:2] != ["help"]:
        args = [*args[1:2], "--help"]
    if not args or args[0] in {"-h", "--help", "help"}:
        print(usage())
        return 0 if args else 2
    name, rest = args[0], args[1:]
    if name in {"version", "--version"}:
        return _version(rest)
    if name not in COMMANDS:
        similar = flags.closest(name, list(COMMANDS))
        hint = f" (did you mean {similar}?)" if similar else ""
        if name in kind_words.COMMANDS:
            hint = f": {kind_words.COMMANDS[name]}"
        print(
            f'Error: unknown command "{name}" for "pilothouse"{hint}\nSee "pilothouse --help" for usage.',
            file=sys.stderr,
        )
        return 2
    return _run(name, rest)


def _args(argv: Sequence[str] | None) -> list[str]:
    if argv is not None:
        return list(argv)
    standard_streams.prepare()
    begin_startup()  # the process is this program's
    return sys.argv[1:]


def kube_controller_manager(argv: Sequence[str] | None = None) -> int:
    """``kube-controller-manager``: the manager with upstream's name and exit codes, which are 0 or 1."""
    args = _args(argv)
    code = standard_streams.written(lambda: _run("manager", args, program="kube-controller-manager"))
    return 1 if code == 2 else code


def stand_in(name: str, argv: Sequence[str], *, parent: int = 0) -> int:
    """A program under another's name, as test suites start it: ``kube-apiserver`` or ``etcd``, with the other's exit
    codes. ``parent`` is the id of the process that has started it."""
    standard_streams.prepare()
    parent_process.end_with_parent(parent)
    code = standard_streams.written(lambda: _run(name, list(argv), program=name))
    return 1 if code == 2 else code


def _run(name: str, args: Sequence[str], program: str = "") -> int:
    try:
        with interrupted_while_loading():
            command = _PROGRAMS[name]()
        return command(program or f"pilothouse {name}", args)
    except KeyboardInterrupt:
        return 130
    except FileNotFoundError:
        # Every relative path depends on it. Most commands need none, so it is not checked before.
        if _has_working_directory():
            raise
        print("Error: the working directory was deleted; change to another one", file=sys.stderr)
        return 1


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _version(args: Sequence[str]) -> int:
    """Without flags: those of the module would take longer than the command."""
    if args and args[0] in {"-h", "--help"}:
        print("Prints the version.\n\nUsage:\n  pilothouse version")
        return 0
    if args:
        error = '"pilothouse version" does not take any arguments, got ["{}"]'
        error = "unknown flag: {}" if args[0].startswith("-") else error
        print(f'Error: {error.format(args[0])}\nSee "pilothouse version --help" for usage.', file=sys.stderr)
        return 2
    print(f"pilothouse v{pilothouse.__version__} (Kubernetes {pilothouse.KUBERNETES_VERSION})")
    return 0


def usage() -> str:
    """The output of ``pilothouse --help``."""
    rows = "\n".join(f"  {name:<16}{text}" for name, text in COMMANDS.items())
    return (
        "Kubernetes' controller manager in Python, with a control plane around it.\n\n"
        "Usage:\n  pilothouse COMMAND [flags]\n\n"
        f"Commands:\n{rows}\n\n"
        'Use "pilothouse COMMAND --help" for the flags of a command.'
    )
