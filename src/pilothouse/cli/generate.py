"""``pilothouse generate``: what a cluster needs to run an operator, as YAML."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pilothouse.cli.operator_file import load_app
from pilothouse.cli.program import UserError, parse
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, STRING, Flag, FlagSet

with lazy_imports():
    import yaml

    from pilothouse.operator import manifests

USAGE = """Prints the CustomResourceDefinitions, ServiceAccount, roles and, with --image, Deployment of an operator.

Usage:
  {program} manifests FILE[:APP] [flags]
"""


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "generate",
        Flag("namespace", STRING, "default", "Namespace that the operator will run in", shorthand="n"),
        Flag("image", STRING, "", "Image of the Deployment; its entry point must be: pilothouse run FILE"),
    )
    flags.add("global", Flag("help", BOOL, False, "Print this help", shorthand="h"))
    return flags


def run(program: str, words: Sequence[str]) -> int:
    """Print the manifests."""
    parsed = parse(flag_set(program), program, words, most=2)
    if isinstance(parsed, int):
        return parsed
    try:
        if len(parsed.arguments) != 2 or parsed.arguments[0] != "manifests":
            raise UserError(f'expected "{program} manifests FILE", got {" ".join(words) or "nothing"}', code=2)
        app = load_app(parsed.arguments[1])
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.code
    objects = manifests.manifests(app, namespace=parsed["namespace"], image=parsed["image"])
    print(text_of(objects), end="")
    return 0


def text_of(objects: Iterable[Mapping[str, Any]]) -> str:
    """The objects as documents of one YAML file."""
    return str(yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True))
