"""All commands with their flags, for generated files: shell completion, the manual page and the reference.

Building this imports all commands, which no running program does.
"""

from collections.abc import Callable, Iterator, Mapping

from pilothouse.cli import (
    apiserver,
    bugs,
    envtest_assets,
    generate,
    get,
    history,
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
from pilothouse.cli.commands import COMMANDS
from pilothouse.machinery.flag_types import BOOL, NAMED_CERTIFICATES, STRING
from pilothouse.machinery.flags import Flag, FlagSet

ALIAS = "kube-controller-manager"
"""The manager under upstream's name."""
_FLAG_SETS: Mapping[str, Callable[[str], FlagSet]] = {
    "up": up.flag_set,
    "create": clusters.create_flag_set,
    "list": clusters.list_flag_set,
    "load": clusters.load_flag_set,
    "kubeconfig": clusters.kubeconfig_flag_set,
    "logs": clusters.logs_flag_set,
    "stop": clusters.stop_flag_set,
    "start": clusters.start_flag_set,
    "delete": clusters.delete_flag_set,
    "manager": manager.flag_set,
    "apiserver": apiserver.flag_set,
    "scheduler": scheduler.flag_set,
    "nodes": nodes.flag_set,
    "new": new.flag_set,
    "run": run.flag_set,
    "generate": generate.flag_set,
    "get": get.flag_set,
    "history": history.flag_set,
    "why": why.flag_set,
    "snapshot": snapshot.flag_set,
    "record": record.flag_set,
    "replay": replay.flag_set,
    "top": top.flag_set,
    "ui": ui.flag_set,
    "simulate": simulate.flag_set,
    "bugs": bugs.flag_set,
    "envtest-assets": envtest_assets.flag_set,
}
"""In the order of ``COMMANDS``."""
NAMES_CLUSTERS = ("load", "kubeconfig", "logs", "stop", "start", "delete")
"""Commands whose arguments are names of clusters."""
NAMES_KINDS = ("get", "history", "why")
"""Commands whose first argument is a type of objects. Shells complete the built-in ones."""
WITHOUT_FLAGS = tuple(name for name in COMMANDS if name not in _FLAG_SETS)


def flag_sets() -> dict[str, FlagSet]:
    """The flags of each command that has any."""
    return {name: flag_set(f"pilothouse {name}") for name, flag_set in _FLAG_SETS.items()}


def shown_flags(flags: FlagSet) -> Iterator[Flag]:
    """The flags that ``--help`` shows, in alphabetical order."""
    return iter(sorted((flag for flag in flags if not flag.deprecated), key=lambda flag: flag.name))


def kind_of_value(flag: Flag) -> str:
    """The completion of a value: ``switch`` none, ``words`` the choices, ``file``, ``folder``, or ``any`` text."""
    if flag.type is BOOL:
        return "switch"
    if flag.choices:
        return "words"
    if flag.name.endswith("-dir"):
        return "folder"
    named = flag.name.endswith(("-file", "kubeconfig", "-config", "config", "-manifest", "-nfs", "-hostpath"))
    if flag.type.name == "path" or flag.type is NAMED_CERTIFICATES or (flag.type is STRING and named):
        return "file"
    return "any"


def first_sentence(text: str) -> str:
    """The start of a help text, for one line."""
    line = text.split("\n", 1)[0]
    head, stop, _rest = line.partition(". ")
    return head if stop else line.rstrip(".")
