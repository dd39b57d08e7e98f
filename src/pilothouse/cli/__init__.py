"""The commands. Each is imported when it is asked for, so that ``pilothouse --help`` stays quick."""

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import cast

COMMANDS = {
    "up": "run API server, manager, scheduler and simulated nodes in one process",
    "manager": "run the controllers in front of any API server (kube-controller-manager's flags)",
    "apiserver": "run the embedded API server alone",
    "scheduler": "run the scheduler in front of any API server",
    "nodes": "run simulated nodes in front of any API server",
    "envtest-assets": "print a folder to set KUBEBUILDER_ASSETS to, for test suites in any language",
    "completion": "print a completion script for bash, zsh or fish",
    "man": "print a manual page",
    "version": "print the version",
}


def main(argv: Sequence[str] | None = None) -> int:
    """``pilothouse``. Returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in {"-h", "--help", "help"}:
        print(usage())
        return 0 if words else 2
    name, rest = words[0], words[1:]
    if name in {"version", "--version"}:
        return _version()
    if name not in COMMANDS:
        print(f'Error: unknown command "{name}" for "pilothouse"\nSee "pilothouse --help" for usage.', file=sys.stderr)
        return 2
    return _run(name, rest)


def kube_controller_manager(argv: Sequence[str] | None = None) -> int:
    """``kube-controller-manager``: the manager under upstream's name, and with its exit codes, which know one kind of
    failure."""
    code = _run("manager", list(sys.argv[1:] if argv is None else argv), program="kube-controller-manager")
    return 1 if code == 2 else code


def stand_in(name: str, argv: Sequence[str]) -> int:
    """A program under another's name, as test suites start it: ``kube-apiserver`` or ``etcd``, with the other's exit
    codes."""
    code = _run(name, list(argv), program=name)
    return 1 if code == 2 else code


def module_of(name: str) -> str:
    """Where a command lives."""
    return f"pilothouse.cli.{name.replace('-', '_')}"


def _run(name: str, words: Sequence[str], program: str = "") -> int:
    command = cast("Callable[[str, Sequence[str]], int]", importlib.import_module(module_of(name)).run)
    try:
        return command(program or f"pilothouse {name}", words)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has left; the interpreter must not complain about it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _version() -> int:
    import pilothouse

    print(f"pilothouse v{pilothouse.__version__} (Kubernetes {pilothouse.KUBERNETES_VERSION})")
    return 0


def usage() -> str:
    """What ``pilothouse --help`` prints."""
    rows = "\n".join(f"  {name:<16}{text}" for name, text in COMMANDS.items())
    return (
        "Kubernetes' controller manager in Python, with a control plane around it.\n\n"
        "Usage:\n  pilothouse COMMAND [flags]\n\n"
        f"Commands:\n{rows}\n\n"
        'Use "pilothouse COMMAND --help" for the flags of a command.'
    )
