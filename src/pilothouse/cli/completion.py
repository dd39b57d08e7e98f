"""``pilothouse completion SHELL``: a completion script for bash, zsh or fish, generated from the flag tables.

Everything is in the script: completing a word starts no Python. It serves ``pilothouse`` and the alias
``kube-controller-manager``.
"""

import sys
from collections.abc import Callable, Iterator, Sequence

from pilothouse.apiserver import resources
from pilothouse.cli.commands import COMMANDS
from pilothouse.cli.programs import (
    ALIAS,
    NAMES_CLUSTERS,
    NAMES_KINDS,
    WITHOUT_FLAGS,
    first_sentence,
    flag_sets,
    kind_of_value,
    shown_flags,
)
from pilothouse.machinery.flags import Flag, FlagSet

USAGE = """Prints a script that completes commands, flags and their values.

Usage:
  {program} bash|zsh|fish

  bash: source <(pilothouse completion bash)
  zsh:  pilothouse completion zsh > "${{fpath[1]}}/_pilothouse"
  fish: pilothouse completion fish > ~/.config/fish/completions/pilothouse.fish
"""


def run(program: str, args: Sequence[str]) -> int:
    """Print the script. Returns 2 if the shell is not supported."""
    if args and args[0] in {"-h", "--help"}:
        print(USAGE.format(program=program))
        return 0
    if len(args) != 1 or args[0] not in SHELLS:
        command_words = " ".join(args) or "nothing"
        print(
            f'Error: expected one of {", ".join(SHELLS)}, got {command_words}\nSee "{program} --help" for usage.',
            file=sys.stderr,
        )
        return 2
    print("\n".join(SHELLS[args[0]](flag_sets())))
    return 0


def _arguments(command: str) -> str:
    return {"completion": " ".join(SHELLS), "man": f"pilothouse {ALIAS}"}.get(command, "")


_CLUSTERS = "$(ls ${XDG_STATE_HOME:-$HOME/.local/state}/pilothouse/clusters 2>/dev/null)"
"""The clusters in the background, in any shell but fish: each is a directory."""
_FISH_CLUSTERS = (
    "(set -q XDG_STATE_HOME; or set -l XDG_STATE_HOME ~/.local/state; "
    "ls $XDG_STATE_HOME/pilothouse/clusters 2>/dev/null)"
)


def _words(command: str, clusters: str = _CLUSTERS) -> str:
    """The positional arguments of a command."""
    nouns = ["cluster"] if command in {"create", "delete"} else []
    kinds = sorted({info.resource for info in resources.built_in()}) if command in NAMES_KINDS else []
    return " ".join([*nouns, *kinds, *([clusters] if command in NAMES_CLUSTERS else [])])


# bash

_BASH = r"""# bash completion for pilothouse and kube-controller-manager
_pilothouse() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} flag="" command="" given=""
    # readline splits words at "="
    if [[ $current == "=" ]]; then
        flag=$before current="" given=yes
    elif [[ $before == "=" && $COMP_CWORD -ge 2 ]]; then
        flag=${COMP_WORDS[COMP_CWORD-2]} given=yes
    elif [[ $before == -* ]]; then
        flag=$before
    fi
    if [[ ${COMP_WORDS[0]##*/} == kube-controller-manager ]]; then
        command=manager
    elif [[ $COMP_CWORD -gt 1 ]]; then
        command=${COMP_WORDS[1]}
    fi
    COMPREPLY=()
    flag=${flag//_/-}
    case "$command $flag" in
"""
_BASH_END = r"""    esac
    # A flag with a free value; switches take one only behind "=".
    [[ $given ]] && return
    case "$command" in
"""


def _bash(sets: dict[str, FlagSet]) -> Iterator[str]:
    yield _BASH.rstrip("\n")
    for command, flags in sets.items():
        for kind, action in (
            ("file", 'COMPREPLY=($(compgen -f -- "$current")); compopt -o filenames 2>/dev/null; return'),
            ("folder", 'COMPREPLY=($(compgen -d -- "$current")); compopt -o filenames 2>/dev/null; return'),
            ("any", "return"),
        ):
            names = [
                spelled for flag in shown_flags(flags) if kind_of_value(flag) == kind for spelled in _spellings(flag)
            ]
            if names:
                patterns = "|".join(f'"{command} {name}"' for name in names)
                yield f"        {patterns}) {action} ;;"
        for flag in shown_flags(flags):
            if kind_of_value(flag) == "words":
                args = " ".join(flag.choices)
                yield f'        "{command} --{flag.name}") _pilothouse_words "{args}"; return ;;'
        switches = [flag.name for flag in shown_flags(flags) if kind_of_value(flag) == "switch"]
        patterns = "|".join(f'"{command} --{name}"' for name in switches)
        yield f'        {patterns}) [[ $given ]] && COMPREPLY=($(compgen -W "true false" -- "$current")) && return ;;'
    yield _BASH_END.rstrip("\n")
    yield f'        "") COMPREPLY=($(compgen -W "{" ".join(COMMANDS)} --help" -- "$current")) ;;'
    for command in WITHOUT_FLAGS:
        yield f'        {command}) COMPREPLY=($(compgen -W "{_arguments(command)}" -- "$current")) ;;'
    for command, flags in sets.items():
        every = " ".join(f"--{flag.name}" for flag in shown_flags(flags))
        args = _words(command)
        yield f'        {command}) COMPREPLY=($(compgen -W "{every}{args and f" {args}"}" -- "$current")) ;;'
    yield "    esac"
    yield "}"
    yield r"""# Completes one of several words, also after a comma.
_pilothouse_words() {
    local head=""
    [[ $current == *,* ]] && head=${current%,*},
    set -f
    COMPREPLY=($(compgen -P "$head" -W "$1" -- "${current##*,}"))
    set +f
    compopt -o nospace 2>/dev/null
}"""
    yield f"complete -F _pilothouse pilothouse {ALIAS}"


def _spellings(flag: Flag) -> list[str]:
    return [f"--{flag.name}", *([f"-{flag.shorthand}"] if flag.shorthand else [])]


# zsh


def _zsh(sets: dict[str, FlagSet]) -> Iterator[str]:
    yield f"#compdef pilothouse {ALIAS}"
    for command, flags in sets.items():
        yield f"_pilothouse_{command}() {{"
        yield "    _arguments -S \\"
        for flag in shown_flags(flags):
            yield f"        {_zsh_flag(flag)} \\"
        if _words(command):
            yield f"        '*:name:compadd -- {_words(command)}' \\"
        yield "        && return 0"
        yield "}"
    yield "_pilothouse() {"
    yield f"    if [[ $service == {ALIAS} ]]; then _pilothouse_manager; return; fi"
    yield "    if (( CURRENT == 2 )); then"
    rows = " ".join(f"'{name}:{_zsh_quoted(text)}'" for name, text in COMMANDS.items())
    yield f"        local -a commands=({rows})"
    yield "        _describe command commands"
    yield "        return"
    yield "    fi"
    yield "    local command=$words[2]"
    yield "    shift words; (( CURRENT-- ))"
    yield "    case $command in"
    for command in sets:
        yield f"        {command}) _pilothouse_{command} ;;"
    for command in WITHOUT_FLAGS:
        if _arguments(command):
            yield f"        {command}) compadd -- {_arguments(command)} ;;"
    yield "    esac"
    yield "}"
    yield 'if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _pilothouse "$@"; else compdef _pilothouse pilothouse '
    yield f"    compdef _pilothouse {ALIAS}; fi"


def _zsh_flag(flag: Flag) -> str:
    text = _zsh_quoted(first_sentence(flag.help)).replace("[", "\\[").replace("]", "\\]")
    kind = kind_of_value(flag)
    values = " ".join(word.replace("*", "\\*") for word in flag.choices)
    action = {
        "switch": "::value:(true false)",
        "words": f":value:_values -s , value {values}" if flag.type.join else f":value:({values})",
        "file": ":file:_files",
        "folder": ":folder:_files -/",
        "any": f":{flag.type.name or 'value'}:",
    }[kind]
    several = "*" if flag.type.join else ""
    name = f"--{flag.name}=-" if kind == "switch" else f"--{flag.name}="
    return f"'{several}{name}[{text}]{action}'"


def _zsh_quoted(text: str) -> str:
    return text.replace("'", "'\\''").replace(":", "\\:")


# fish


def _fish(sets: dict[str, FlagSet]) -> Iterator[str]:
    yield "# fish completion for pilothouse and kube-controller-manager"
    yield "complete -c pilothouse -f"
    for name, text in COMMANDS.items():
        yield f"complete -c pilothouse -n __fish_use_subcommand -a {name} -d {_fish_quoted(text)}"
    for command in WITHOUT_FLAGS:
        if _arguments(command):
            yield f"complete -c pilothouse -n '__fish_seen_subcommand_from {command}' -a '{_arguments(command)}'"
    for command, flags in sets.items():
        if args := _words(command, _FISH_CLUSTERS):
            yield f"complete -c pilothouse -n '__fish_seen_subcommand_from {command}' -a {_fish_quoted(args)}"
        for flag in shown_flags(flags):
            yield f"complete -c pilothouse -n '__fish_seen_subcommand_from {command}' {_fish_flag(flag)}"
    yield f"complete -c {ALIAS} -f"
    for flag in shown_flags(sets["manager"]):
        yield f"complete -c {ALIAS} {_fish_flag(flag)}"


def _fish_flag(flag: Flag) -> str:
    value = {
        "switch": "",
        "words": f" -x -a {_fish_quoted(' '.join(flag.choices))}",
        "file": " -r -F",
        "folder": " -x -a '(__fish_complete_directories)'",
        "any": " -x",
    }[kind_of_value(flag)]
    letter = f" -s {flag.shorthand}" if flag.shorthand else ""
    return f"-l {flag.name}{letter}{value} -d {_fish_quoted(first_sentence(flag.help))}"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS: dict[str, Callable[[dict[str, FlagSet]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
