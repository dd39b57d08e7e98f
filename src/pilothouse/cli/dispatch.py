"""The commands. Each is imported when it is used, so that ``pilothouse --help`` is fast."""

import sys
from collections.abc import Callable, Mapping, Sequence

import pilothouse
from pilothouse.cli import standard_streams
from pilothouse.cli.commands import COMMANDS
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

_PROGRAMS: Mapping[str, Callable[[str, Sequence[str]], int]] = {
    "up": lambda program, words: up.run(program, words),
    "create": lambda program, words: clusters.create(program, words),
    "list": lambda program, words: clusters.list_(program, words),
    "load": lambda program, words: clusters.load(program, words),
    "kubeconfig": lambda program, words: clusters.kubeconfig(program, words),
    "logs": lambda program, words: clusters.logs(program, words),
    "stop": lambda program, words: clusters.stop(program, words),
    "start": lambda program, words: clusters.start(program, words),
    "delete": lambda program, words: clusters.delete(program, words),
    "manager": lambda program, words: manager.run(program, words),
    "apiserver": lambda program, words: apiserver.run(program, words),
    "scheduler": lambda program, words: scheduler.run(program, words),
    "nodes": lambda program, words: nodes.run(program, words),
    "new": lambda program, words: new.run(program, words),
    "run": lambda program, words: run.run(program, words),
    "generate": lambda program, words: generate.run(program, words),
    "get": lambda program, words: get.run(program, words),
    "history": lambda program, words: history.run(program, words),
    "why": lambda program, words: why.run(program, words),
    "snapshot": lambda program, words: snapshot.run(program, words),
    "record": lambda program, words: record.run(program, words),
    "replay": lambda program, words: replay.run(program, words),
    "top": lambda program, words: top.run(program, words),
    "ui": lambda program, words: ui.run(program, words),
    "simulate": lambda program, words: simulate.run(program, words),
    "bugs": lambda program, words: bugs.run(program, words),
    "envtest-assets": lambda program, words: envtest_assets.run(program, words),
    "completion": lambda program, words: completion.run(program, words),
    "man": lambda program, words: man.run(program, words),
    "kube-apiserver": lambda program, words: kube_apiserver.run(program, words),
    "etcd": lambda program, words: etcd.run(program, words),
}
"""Those of ``COMMANDS``, and the programs that run under another's name."""


def main(argv: Sequence[str] | None = None) -> int:
    """``pilothouse``. Returns the exit code."""
    words = _words(argv)
    return standard_streams.written(lambda: _main(words))


def _main(words: list[str]) -> int:
    if words[:1] == ["help"] and words[1:2] != ["help"]:
        words = [*words[1:2], "--help"]
    if not words or words[0] in {"-h", "--help", "help"}:
        print(usage())
        return 0 if words else 2
    name, rest = words[0], words[1:]
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


def _words(argv: Sequence[str] | None) -> list[str]:
    if argv is not None:
        return list(argv)
    standard_streams.prepare()
    begin_startup()  # the process is this program's
    return sys.argv[1:]


def kube_controller_manager(argv: Sequence[str] | None = None) -> int:
    """``kube-controller-manager``: the manager with upstream's name and exit codes, which are 0 or 1."""
    words = _words(argv)
    code = standard_streams.written(lambda: _run("manager", words, program="kube-controller-manager"))
    return 1 if code == 2 else code


def stand_in(name: str, argv: Sequence[str]) -> int:
    """A program under another's name, as test suites start it: ``kube-apiserver`` or ``etcd``, with the other's exit
    codes."""
    standard_streams.prepare()
    code = standard_streams.written(lambda: _run(name, list(argv), program=name))
    return 1 if code == 2 else code


def _run(name: str, words: Sequence[str], program: str = "") -> int:
    try:
        return _PROGRAMS[name](program or f"pilothouse {name}", words)
    except KeyboardInterrupt:
        return 130


def _version(words: Sequence[str]) -> int:
    """Without flags: those of the module would take longer than the command."""
    if words and words[0] in {"-h", "--help"}:
        print("Prints the version.\n\nUsage:\n  pilothouse version")
        return 0
    if words:
        error = '"pilothouse version" does not take any arguments, got ["{}"]'
        error = "unknown flag: {}" if words[0].startswith("-") else error
        print(f'Error: {error.format(words[0])}\nSee "pilothouse version --help" for usage.', file=sys.stderr)
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
