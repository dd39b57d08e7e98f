"""``pilothouse man``: a manual page in roff, generated from the flag tables.

``pilothouse man | man -l -`` shows it; packages write it to ``share/man/man1``.
"""

import sys
from collections.abc import Iterator, Sequence

import pilothouse
from pilothouse.cli.commands import COMMANDS
from pilothouse.cli.programs import ALIAS, flag_sets
from pilothouse.machinery.flag_types import BOOL
from pilothouse.machinery.flags import Flag, FlagSet, explain

USAGE = """Prints a manual page.

Usage:
  {program} [pilothouse|kube-controller-manager]
"""
_EXITS = (
    ("0", "success; also after a first SIGINT or SIGTERM"),
    ("1", "failure"),
    ("2", f"invalid command line; as {ALIAS} the status is 1"),
)


def run(program: str, args: Sequence[str]) -> int:
    """Print the page. Exit code 2 for a program without one."""
    if args and args[0] in {"-h", "--help"}:
        print(USAGE.format(program=program))
        return 0
    desired = args[0] if args else "pilothouse"
    if len(args) > 1 or desired not in {"pilothouse", ALIAS}:
        whole = f"pilothouse (which has the flags of {desired})" if desired in COMMANDS else "pilothouse"
        print(
            f"Error: no manual page for {' '.join(args)}: the pages are {whole} and {ALIAS}\n"
            f'See "{program} --help" for usage.',
            file=sys.stderr,
        )
        return 2
    print("\n".join(_manager_page() if desired == ALIAS else _page()))
    return 0


def _page() -> Iterator[str]:
    yield from _head("pilothouse", "Kubernetes' controller manager in Python, with a control plane around it")
    yield ".SH SYNOPSIS"
    yield ".B pilothouse"
    yield ".I command"
    yield ".RI [ flags ]"
    yield ".SH COMMANDS"
    for name, text in COMMANDS.items():
        yield ".TP"
        yield f".B {_text(name)}"
        yield _text(text)
    for command, flags in flag_sets().items():
        yield f".SH FLAGS OF {_text(command.upper())}"
        yield from _flags(flags)
    yield from _tail(f"{ALIAS}(1)")


def _manager_page() -> Iterator[str]:
    flags = flag_sets()["manager"]
    yield from _head(ALIAS, "runs the controllers against any API server")
    yield ".SH SYNOPSIS"
    yield f".B {_text(ALIAS)}"
    yield ".RI [ flags ]"
    yield ".SH DESCRIPTION"
    yield _text(flags.usage.split("\n\nUsage:")[0].replace("\n\n", "\n"))
    yield ".SH FLAGS"
    yield from _flags(flags)
    yield from _tail("pilothouse(1)")


def _head(name: str, description: str) -> Iterator[str]:
    yield f'.TH {name.upper()} 1 "" "pilothouse {pilothouse.__version__}"'
    # Names of flags and gates are too long for lines of one length, and must not be broken.
    yield ".ad l"
    yield ".nh"
    yield ".SH NAME"
    yield f"{_text(name)} \\- {_text(description)}"


def _tail(other: str) -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, text in _EXITS:
        yield ".TP"
        yield f".B {code}"
        yield _text(text)
    yield ".SH SEE ALSO"
    yield _text(other)


def _flags(flags: FlagSet) -> Iterator[str]:
    for group, members in flags.groups.items():
        flags_listed = sorted((flag for flag in members if not flag.deprecated), key=lambda flag: flag.name)
        if flags_listed:
            yield f".SS {_text(group[:1].upper() + group[1:])}"
        for flag in flags_listed:
            yield ".TP"
            yield _heading(flag)
            first, *further = explain(flag).split("\n")
            yield _text(first)
            for line in further:
                yield ".br"
                yield _text(line)


def _heading(flag: Flag) -> str:
    names = f"\\fB\\-{flag.shorthand}\\fR, " if flag.shorthand else ""
    names += f"\\fB{_text(f'--{flag.name}')}\\fR"
    if flag.type is BOOL:
        return names
    value = f"\\fI{_text(flag.type.name)}\\fR"
    return f"{names}[={value}]" if flag.type.alone is not None else f"{names} {value}"


def _text(text: str) -> str:
    """Text that roff prints as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    # A dot or an apostrophe at the start of a line would be a request.
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.split("\n"))
