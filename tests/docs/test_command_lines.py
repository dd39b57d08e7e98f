"""Command lines in the documentation are valid: commands, flags and values exist."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pilothouse.cli.commands import COMMANDS
from pilothouse.cli.programs import WITHOUT_FLAGS, flag_sets
from pilothouse.machinery.flags import FlagSet

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs/reference"
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    if not page.is_relative_to(GENERATED) and page.name != "CHANGELOG.md"  # which mentions removed flags
)
_FENCED = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(pilothouse [^`\n]+)`")
_COMMAND = re.compile(r"(?:^|[\s(;&|])(pilothouse(?: .*)?)$", re.MULTILINE)
_END_OF_COMMAND = {"|", "&", "&&", "||", ";", ">", ">>", "<", ")"}
_LEFT_OUT = re.compile(r"\.\.\.|…|\[|<")
"""In a line that shows the form of a command and is none."""


def command_lines(text: str) -> Iterator[str]:
    """The command lines of pilothouse in a page's code blocks and sentences."""
    for block in _FENCED.findall(text):
        prompted = block.startswith("$ ")
        lines = block.replace("\\\n", " ").splitlines()
        for line in lines:
            if prompted and not line.startswith("$ "):
                continue  # what was printed
            if (match := _COMMAND.search(line.partition(" #")[0].removeprefix("$ "))) is not None:
                yield match.group(1).strip()
    yield from (item.strip() for item in _INLINE.findall(text))


def words_of(line: str) -> list[str]:
    """The words of the command itself: up to a pipe, a redirection or the next command."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if word in _END_OF_COMMAND:
            break
        words.append(word)
    return words


@cache
def sets() -> dict[str, FlagSet]:
    return flag_sets()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_command_lines_are_valid(page: Path) -> None:
    for line in command_lines(page.read_text("utf-8")):
        if _LEFT_OUT.search(line):
            continue
        program, *words = words_of(line)
        assert program == "pilothouse", line
        if not words or words[0].startswith("-"):
            assert words in ([], ["--help"], ["--version"]), line
            continue
        command, *rest = words
        assert command in COMMANDS, line
        if command not in WITHOUT_FLAGS:
            sets()[command].parse(rest)  # raises FlagError


def test_command_lines_are_extracted() -> None:
    block = "```console\n$ a=1 pilothouse get pods \\\n    --at 5m | jq .   # x\npilothouse: no\n```\n"
    text = f"Say `pilothouse up --ui`.\n{block}"
    assert [*map(words_of, command_lines(text))] == [
        ["pilothouse", "get", "pods", "--at", "5m"],
        ["pilothouse", "up", "--ui"],
    ]
