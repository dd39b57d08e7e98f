"""``pilothouse new``: the project of a new operator."""

import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from pilothouse.cli.operator_file import load_app
from pilothouse.cli.program import UserError, print_text
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, STRING, Flag, FlagSet, Parsed

with lazy_imports():
    from pilothouse.cli import generate, scaffold
    from pilothouse.operator import manifests

USAGE = """Writes the project of a new operator: code, tests, manifests, Containerfile.

Usage:
  {program} operator NAME [flags]
"""


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "new",
        Flag("directory", STRING, "", "Where to write it; NAME in the working directory if empty"),
        Flag("group", STRING, "example.com", "API group of the custom resource"),
    )
    flags.add("global", Flag("help", BOOL, False, "Print this text", shorthand="h"))
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Write the project, and print the next commands."""

    def write(parsed: Parsed) -> str:
        if len(parsed.arguments) != 2 or parsed.arguments[0] != "operator":
            raise UserError(f'expected "{program} operator NAME", got {" ".join(args) or "nothing"}', code=2)
        return _write(parsed.arguments[1], parsed)

    return print_text(flag_set(program), program, args, write, most=2)


def _write(name: str, parsed: Parsed) -> str:
    names = scaffold.names_of(name, parsed["group"])
    directory = Path(parsed["directory"] or name)
    contents = scaffold.files(names)
    scaffold.write(directory, contents, scaffold.MANIFESTS)
    app = load_app(str(directory / f"{names.module}.py"))
    objects = manifests.manifests(app, namespace=names.app, image=names.image)
    scaffold.write(directory, {scaffold.MANIFESTS: generate.text_of(objects)}, scaffold.MANIFESTS)
    written = "".join(f"  {directory / path}\n" for path in sorted([*contents, scaffold.MANIFESTS]))
    return (
        f"{names.app}, for {names.kind} ({names.plural}.{names.group}):\n{written}"
        "Next:\n"
        f"  cd {shlex.quote(str(directory))}\n"
        f"  pilothouse run {names.module}.py --dev --apply examples/\n"
        f"  python -m pytest{'' if find_spec('pytest') else '    # after: pip install pytest'}\n"
    )
