"""Every command with its flags, for what is generated from them: shell completion, the manual page and the reference.

Building this imports all commands, which no running program does.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import cast

from pilothouse.cli import COMMANDS, module_of
from pilothouse.machinery.flag_types import BOOL, NAMED_CERTIFICATES, STRING
from pilothouse.machinery.flags import Flag, FlagSet

ALIAS = "kube-controller-manager"
"""The manager under upstream's name."""
WITHOUT_FLAGS = ("completion", "man", "version")


def flag_sets() -> dict[str, FlagSet]:
    """The flags of each command that has any, in the order of ``COMMANDS``."""
    found = {}
    for name in COMMANDS:
        if name not in WITHOUT_FLAGS:
            module = importlib.import_module(module_of(name))
            found[name] = cast("Callable[[str], FlagSet]", module.flag_set)(f"pilothouse {name}")
    return found


def shown_flags(flags: FlagSet) -> Iterator[Flag]:
    """The flags that ``--help`` shows, in alphabetical order."""
    return iter(sorted((flag for flag in flags if not flag.deprecated), key=lambda flag: flag.name))


def kind_of_value(flag: Flag) -> str:
    """What a shell may offer: ``switch`` nothing, ``words`` the choices, ``file``, ``folder``, or ``any`` text."""
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
