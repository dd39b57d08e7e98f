"""``pilothouse envtest-assets``: a folder for ``KUBEBUILDER_ASSETS``.

Suites in Go, Java or Rust start ``kube-apiserver`` and ``etcd`` from that directory (controller-runtime's envtest
searches it first); these start pilothouse, with the Python and the installation that created the directory.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pilothouse
from pilothouse.cli.clientside import common_flags
from pilothouse.cli.home_directory import expanded
from pilothouse.cli.program import UserError, parse
from pilothouse.env.private_files import write_private
from pilothouse.machinery.flags import BOOL, STRING, Flag, FlagSet

USAGE = """Creates a directory with replacements for kube-apiserver and etcd, and prints its path.

  export KUBEBUILDER_ASSETS=$(pilothouse envtest-assets)

Usage:
  {program} [flags]
"""
_HOME = "set HOME or XDG_CACHE_HOME, or name a directory with --dir"
CONTROLLERS = ("garbage-collector-controller", "namespace-controller")
_NO_KUBECTL = """#!/bin/sh
echo 'There was no kubectl on the PATH when this folder was made.' >&2
echo 'Get it from https://kubernetes.io/docs/tasks/tools/ and run "pilothouse envtest-assets" again.' >&2
exit 1
"""


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "assets",
        Flag("dir", STRING, "", "Directory to create; empty: one in the user's cache directory"),
        Flag(
            "controllers",
            BOOL,
            False,
            "Run the garbage collector and the namespace controller in the API server, which envtest does not",
        ),
    )
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Create the directory and print it."""
    parsed = parse(flag_set(program), program, args)
    if isinstance(parsed, int):
        return parsed
    try:
        folder = expanded(parsed["dir"] or _default(parsed["controllers"]), _HOME).absolute()
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    try:
        make(folder, CONTROLLERS if parsed["controllers"] else ())
    except OSError as error:
        hint = "" if parsed["dir"] else "; --dir names another directory"
        print(f"Error: {folder} can't be created: {error.strerror}{hint}", file=sys.stderr)
        return 1
    print(folder)
    return 0


def make(folder: Path, controllers: Sequence[str] = ()) -> None:
    """Create or update the directory. ``controllers`` run in the API server. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "etcd", _script("etcd"))
    _write(
        folder / "kube-apiserver",
        _script("kube-apiserver", *([f"--controllers={','.join(controllers)}"] * bool(controllers))),
    )
    kubectl = _kubectl(folder)
    if kubectl:
        _write(folder / "kubectl", f'#!/bin/sh\nexec {shlex.quote(kubectl)} "$@"\n')
    else:
        _write(folder / "kubectl", _NO_KUBECTL)


def _default(controllers: bool) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    kind = "assets-with-controllers" if controllers else "assets"
    return Path(cache) / "pilothouse" / pilothouse.__version__ / kind


def _script(name: str, *args: str) -> str:
    code = (
        "import sys; from pilothouse.cli import stand_in; "
        f"sys.exit(stand_in({name!r}, sys.argv[2:], parent=int(sys.argv[1])))"
    )
    # -P: the suite's directory must not shadow our modules.
    # The shell's parent is the suite. Python starts later, when the suite may have ended.
    command = f'{shlex.join([sys.executable, "-P", "-c", code])} "$PPID" {shlex.join(args)}'.rstrip()
    return f'#!/bin/sh\nexec {command} "$@"\n'


def _kubectl(folder: Path) -> str | None:
    elsewhere = [part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(part) != folder]
    return shutil.which("kubectl", path=os.pathsep.join(elsewhere))


def _write(path: Path, text: str) -> None:
    """Written atomically: a suite may be executing the old one."""
    write_private(path, text.encode(), mode=0o755)
