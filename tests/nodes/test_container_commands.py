"""What a container does whose command says it, and what is left open."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.nodes.container_commands import Outcome, outcome_of, runs_on

FOREVER = math.inf
OPEN = None
"""Nothing is plain: the pod's restart policy decides."""


def script(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(("sleep", "5"), (5.0, 0), id="sleep"),
        pytest.param(("/bin/sleep", "0.5"), (0.5, 0), id="by its path, half a second"),
        pytest.param(("sleep", "1m", "2s"), (62.0, 0), id="the sum of durations"),
        pytest.param(("sleep", "1h"), (3600.0, 0), id="an hour"),
        pytest.param(("sleep", "infinity"), (FOREVER, 0), id="without end"),
        pytest.param(("sleep", "long"), (0.0, 1), id="no duration: the program refuses it"),
        pytest.param(("sleep", "$(SECONDS)"), OPEN, id="a variable that nobody knows"),
        pytest.param(("true",), (0.0, 0), id="true"),
        pytest.param(("/bin/false",), (0.0, 1), id="false"),
        pytest.param(("echo", "hello"), (0.0, 0), id="echo"),
        pytest.param(("./serve", "--port=80"), OPEN, id="a program that nobody knows"),
        pytest.param((), OPEN, id="what the image says"),
        pytest.param(("tail", "-f", "/dev/null"), (FOREVER, 0), id="tail -f"),
        pytest.param(("sh",), (0.0, 0), id="a shell with nothing to read"),
        pytest.param(("sh", "-c"), OPEN, id="a shell without a script"),
        pytest.param(("sh", "/scripts/run.sh"), OPEN, id="a script that is in a file"),
        pytest.param(script("exit 3"), (0.0, 3), id="exit"),
        pytest.param(("/bin/bash", "-ec", "exit 7"), (0.0, 7), id="options of the shell"),
        pytest.param(("bash", "-e", "-x", "-c", "false; true"), (0.0, 1), id="-e ends with the first failure"),
        pytest.param(("/usr/bin/env", "A=b", "sh", "-c", "exit 4"), (0.0, 4), id="env"),
        pytest.param(script("exit 256"), (0.0, 0), id="a code has eight bits"),
        pytest.param(script("exit"), (0.0, 0), id="exit with the last status"),
        pytest.param(script("false; exit"), (0.0, 1), id="which may be a failure"),
        pytest.param(script("exit $?"), (0.0, 0), id="and has a name"),
        pytest.param(script("echo x; sleep 5; exit 3"), (5.0, 3), id="one after the other"),
        pytest.param(script("echo x\nsleep 5 # a while\n\nexit 3\n"), (5.0, 3), id="by lines, with a comment"),
        pytest.param(script("sleep 2 && false"), (2.0, 1), id="and"),
        pytest.param(script("false && sleep 2"), (0.0, 1), id="and, the first has failed"),
        pytest.param(script("false || exit 5"), (0.0, 5), id="or"),
        pytest.param(script("true || exit 5"), (0.0, 0), id="or, the first was well"),
        pytest.param(script("! true"), (0.0, 1), id="not"),
        pytest.param(script("set -e; false; sleep 9"), (0.0, 1), id="set -e"),
        pytest.param(script("set -e; false || true; sleep 9"), (9.0, 0), id="set -e does not count what is asked"),
        pytest.param(script("set -euo pipefail; sleep 1"), (1.0, 0), id="set with many words"),
        pytest.param(script("exec sleep 4"), (4.0, 0), id="exec"),
        pytest.param(script("sleep 1; sh -c 'sleep 2; exit 6'"), (3.0, 6), id="a shell in the shell"),
        pytest.param(script("(sleep 1; exit 2); sleep 3"), (4.0, 0), id="a subshell exits alone"),
        pytest.param(script("{ sleep 1; exit 2; }; sleep 3"), (1.0, 2), id="a group does not"),
        pytest.param(script("N=3; sleep $N; exit ${N}"), (3.0, 3), id="variables that are set"),
        pytest.param(script('sleep "$N"'), OPEN, id="one that is not"),
        pytest.param(script("sleep $((1 + 2))"), OPEN, id="arithmetic"),
        pytest.param(script("exit `cat /code`"), OPEN, id="the output of a program"),
        pytest.param(script("echo $(date) started; sleep 3"), (3.0, 0), id="where it does not matter"),
        pytest.param(script("while true; do echo x; sleep 1; done"), (FOREVER, 0), id="a loop"),
        pytest.param(script("while :; do ./work | tee log; done"), (FOREVER, 0), id="a loop around who knows what"),
        pytest.param(script("until false; do sleep 1; done"), (FOREVER, 0), id="until"),
        pytest.param(script("while sleep 10; do :; done"), (FOREVER, 0), id="a loop that waits"),
        pytest.param(script("while true; do sleep 2; break; done; exit 1"), (2.0, 1), id="a loop that is left"),
        pytest.param(script("while true; do sleep 2; exit 9; done"), (2.0, 9), id="a loop that exits"),
        pytest.param(script("while true; do ./work || exit 1; done"), OPEN, id="a loop that may exit"),
        pytest.param(script("until nslookup db; do sleep 2; done"), OPEN, id="waiting for somebody else"),
        pytest.param(script("for i in 1 2 3; do sleep $i; done"), (6.0, 0), id="for"),
        pytest.param(script("for i in $(seq 1 4); do sleep 1; done; exit 2"), (4.0, 2), id="for with seq"),
        pytest.param(script("for i in *; do sleep 1; done"), OPEN, id="for with files"),
        pytest.param(script("if true; then sleep 1; else sleep 2; fi"), (1.0, 0), id="if"),
        pytest.param(script("if false; then sleep 1; elif true; then sleep 5; fi"), (5.0, 0), id="elif"),
        pytest.param(script("if [ -f /x ]; then exit 1; fi"), OPEN, id="a test that nobody knows"),
        pytest.param(script("sleep 5 & sleep 1; wait"), (5.0, 0), id="in the background, waited for"),
        pytest.param(script("sleep 500 & sleep 1"), (1.0, 0), id="in the background, left alone"),
        pytest.param(script("./server & sleep 1; exit 1"), (1.0, 1), id="whatever is in the background"),
        pytest.param(script("trap 'exit 0' TERM; sleep 3"), (3.0, 0), id="a trap"),
        pytest.param(script("apt-get update; exit 3"), OPEN, id="behind a program that nobody knows"),
        pytest.param(script("sleep 2 > /dev/null 2>&1"), (2.0, 0), id="redirected"),
        pytest.param(script("exit 3 >"), OPEN, id="what is no shell"),
        pytest.param(script("sleep 1 | cat"), OPEN, id="a pipe"),
        pytest.param(script("case x in x) exit 3;; esac"), OPEN, id="more than is read"),
        pytest.param(script("f() { exit 3; }; f"), OPEN, id="functions"),
        pytest.param(script("cat <<EOF\nexit 3\nEOF\nexit 4"), OPEN, id="text in the script"),
        pytest.param(script("echo 'it''s; exit 3'"), (0.0, 0), id="quotes"),
        pytest.param(script('echo "a; exit 3'), OPEN, id="a quote without an end"),
        pytest.param(script("(" * 1000), OPEN, id="too deep"),
        pytest.param(script("true;" * 100_000), OPEN, id="too long"),
        pytest.param(script("for i in $(seq 9999); do for j in $(seq 9999); do true; done; done"), OPEN, id="too much"),
        pytest.param(("/agnhost", "pause"), (FOREVER, 0), id="agnhost pause"),
        pytest.param(("/pause",), (FOREVER, 0), id="pause"),
    ],
)  # fmt: skip
def test_outcome(words: tuple[str, ...], expected: tuple[float, int] | None) -> None:
    found = outcome_of(words)
    assert (None if found is None else (found.seconds, found.code)) == expected


@pytest.mark.parametrize(
    ("words", "output"),
    [
        pytest.param(("echo", "hello", "world"), [(0.0, "hello world")], id="echo"),
        pytest.param(script("echo a; sleep 2; echo b >&2"), [(0.0, "a"), (2.0, "b")], id="at their times"),
        pytest.param(script("echo -n a; echo b"), [(0.0, "ab")], id="-n"),
        pytest.param(script("echo 'a\nb'"), [(0.0, "a"), (0.0, "b")], id="lines"),
        pytest.param(script("echo a > /tmp/x; echo b"), [(0.0, "b")], id="not what goes into a file"),
        pytest.param(script("N=1; echo \"n is $N\" '$N'"), [(0.0, "n is 1 $N")], id="variables"),
        pytest.param(script("echo at $(date)"), [(0.0, "at $(date)")], id="what is not known stays as it is written"),
        pytest.param(script("for i in a b; do echo $i; sleep 1; done"), [(0.0, "a"), (1.0, "b")], id="a loop"),
        pytest.param(script("printf 'a\\nb\\n'"), [(0.0, "a"), (0.0, "b")], id="printf"),
    ],
)
def test_output(words: tuple[str, ...], output: list[tuple[float, str]]) -> None:
    found = outcome_of(words)
    assert found is not None
    assert list(found.output) == output


PIECES = [
    *(
        "sleep 1",
        "exit 3",
        "true",
        "false",
        "echo x",
        "while true",
        "do",
        "done",
        "if",
        "then",
        "else",
        "fi",
        "for i in",
    ),
    *(
        ";",
        "&&",
        "||",
        "|",
        "&",
        "(",
        ")",
        "{",
        "}",
        "\n",
        "$",
        "$(",
        "`",
        "'",
        '"',
        "\\",
        "#",
        ">",
        "2>&1",
        "!",
        "x=1",
    ),
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=30))
def test_any_text_has_an_outcome_or_none(pieces: list[str]) -> None:
    found = outcome_of(script(" ".join(pieces)))
    assert found is None or (found.seconds >= 0 and 0 <= found.code < 256)


def test_the_output_of_a_loop_is_bounded() -> None:
    found = outcome_of(script("while true; do echo x; sleep 1; done"))
    assert found is not None
    assert found.output[:2] == ((0.0, "x"), (1.0, "x"))
    assert 100 < len(found.output) < 10_000


def test_a_termination_message_is_what_was_written_to_its_file() -> None:
    found = outcome_of(script("echo -n DONE > /dev/termination-log; echo b; exit 1"))
    assert found == Outcome(seconds=0.0, code=1, output=((0.0, "b"),), message="DONE")


@pytest.mark.parametrize(
    ("words", "image", "expected"),
    [
        pytest.param((), "nginx", True, id="a well-known server"),
        pytest.param((), "docker.io/library/redis:7@sha256:" + "0" * 64, True, id="by its whole name"),
        pytest.param((), "registry.k8s.io/pause:3.10", True, id="pause"),
        pytest.param((), "example.com/my-app:v1", False, id="any other"),
        pytest.param(("nginx", "-g", "daemon off;"), "example.com/my-app", True, id="a server as the command"),
        pytest.param(("nginx", "-t"), "nginx", True, id="whatever its options"),
        pytest.param(("python3", "-m", "http.server"), "python", True, id="a server of a language"),
        pytest.param(("migrate",), "postgres", False, id="another program in the image of a server"),
        pytest.param(("netexec",), "registry.k8s.io/e2e-test-images/agnhost:2.40", True, id="agnhost's servers"),
    ],
)
def test_servers(words: tuple[str, ...], image: str, expected: bool) -> None:
    assert runs_on(words, image) is expected
