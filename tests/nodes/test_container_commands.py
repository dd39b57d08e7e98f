"""Run time, exit code and output of containers by their commands, and commands that are not interpreted."""

import math
import time
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cases

from pilothouse.api.meta import ObjectMeta
from pilothouse.nodes import container_commands
from pilothouse.nodes.container_commands import Outcome, outcome_of, reads_input, runs_on
from pilothouse.nodes.container_environment import environment_of
from pilothouse.nodes.views import FieldReference, KeyReference, ValueSource, Variable

FOREVER = math.inf
OPEN = None
"""Nothing is plain: the pod's restart policy decides."""


def script(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


@cases(
    "words, expected",
    {
        "sleep": (("sleep", "5"), (5.0, 0)),
        "path and fraction": (("/bin/sleep", "0.5"), (0.5, 0)),
        "the sum of durations": (("sleep", "1m", "2s"), (62.0, 0)),
        "an hour": (("sleep", "1h"), (3600.0, 0)),
        "infinity": (("sleep", "infinity"), (FOREVER, 0)),
        "longer than a float": (script(f"sleep {'9' * 400}; echo x"), (FOREVER, 0)),
        "longer than all times": (("sleep", "9" * 12), (FOREVER, 0)),
        "invalid duration": (("sleep", "long"), (0.0, 1)),
        "unknown variable": (("sleep", "$(SECONDS)"), OPEN),
        "true": (("true",), (0.0, 0)),
        "false": (("/bin/false",), (0.0, 1)),
        "echo": (("echo", "hello"), (0.0, 0)),
        "unknown program": (("./serve", "--port=80"), OPEN),
        "no command": ((), OPEN),
        "tail -f": (("tail", "-f", "/dev/null"), (FOREVER, 0)),
        "a shell with nothing to read": (("sh",), (0.0, 0)),
        "a shell without a script": (("sh", "-c"), OPEN),
        "a script that is in a file": (("sh", "/scripts/run.sh"), OPEN),
        "exit": (script("exit 3"), (0.0, 3)),
        "options of the shell": (("/bin/bash", "-ec", "exit 7"), (0.0, 7)),
        "-e ends with the first failure": (("bash", "-e", "-x", "-c", "false; true"), (0.0, 1)),
        "env": (("/usr/bin/env", "A=b", "sh", "-c", "exit 4"), (0.0, 4)),
        "a code has eight bits": (script("exit 256"), (0.0, 0)),
        "exit with the last status": (script("exit"), (0.0, 0)),
        "which may be a failure": (script("false; exit"), (0.0, 1)),
        "exit $?": (script("exit $?"), (0.0, 0)),
        "sequence": (script("echo x; sleep 5; exit 3"), (5.0, 3)),
        "lines with a comment": (script("echo x\nsleep 5 # a while\n\nexit 3\n"), (5.0, 3)),
        "&&": (script("sleep 2 && false"), (2.0, 1)),
        "&&, first fails": (script("false && sleep 2"), (0.0, 1)),
        "||": (script("false || exit 5"), (0.0, 5)),
        "||, first succeeds": (script("true || exit 5"), (0.0, 0)),
        "negation": (script("! true"), (0.0, 1)),
        "set -e": (script("set -e; false; sleep 9"), (0.0, 1)),
        "set -e ignores conditions": (script("set -e; false || true; sleep 9"), (9.0, 0)),
        "set with several options": (script("set -euo pipefail; sleep 1"), (1.0, 0)),
        "exec": (script("exec sleep 4"), (4.0, 0)),
        "a shell in the shell": (script("sleep 1; sh -c 'sleep 2; exit 6'"), (3.0, 6)),
        "a subshell exits alone": (script("(sleep 1; exit 2); sleep 3"), (4.0, 0)),
        "a group does not": (script("{ sleep 1; exit 2; }; sleep 3"), (1.0, 2)),
        "variables that are set": (script("N=3; sleep $N; exit ${N}"), (3.0, 3)),
        "unset variable": (script('sleep "$N"'), OPEN),
        "arithmetic": (script("sleep $((1 + 2))"), (3.0, 0)),
        "precedence and signs": (script("sleep $(( -1 + 2 * (3 - -1) % 5 ))"), (2.0, 0)),
        "division rounds towards zero": (script("exit $((7 / -2 + 10))"), (0.0, 7)),
        "comparisons": (script("exit $(( (2 <= 2) + (1 == 2) + (3 != 4 && !0) + (0 || 5) ))"), (0.0, 3)),
        "hexadecimal": (script("exit $((0x1f))"), (0.0, 31)),
        "a number with leading zeros, which is octal": (script("exit $((010 + 1))"), OPEN),
        "arithmetic wraps at 64 bits": (
            script("exit $(( (999999999999999999 * 999999999999999999) % 100 + 100 ))"),
            (0.0, 100 - 51),
        ),
        "a counter": (script("i=0; while [ $i -lt 5 ]; do i=$((i+1)); sleep 2; done; exit $i"), (10.0, 5)),
        "a counter by expr": (script("i=0; while [ $i -lt 3 ]; do i=$(expr $i + 1); sleep 1; done"), (3.0, 0)),
        "expr by the index of a Job": (script("X=3; if [ $(expr $X % 2) -ne 0 ]; then exit 1; fi"), (0.0, 1)),
        "the status of expr": (script("expr 1 - 1"), (0.0, 1)),
        "the output of commands": (script("N=$(echo 3; echo); sleep $N"), (3.0, 0)),
        "backticks": (script("sleep `expr 1 + 1`"), (2.0, 0)),
        "the status of commands": (script("N=$(exit 3)"), (0.0, 3)),
        "commands take time": (script("N=$(sleep 2; echo 1); sleep $N"), (3.0, 0)),
        "words of commands": (script("for i in $(echo 1 2 3); do sleep $i; done"), (6.0, 0)),
        "an assignment in arithmetic": (script("sleep $((i += 1))"), OPEN),
        "a division by zero": (script("exit $((1 / 0))"), OPEN),
        "arithmetic with an unknown variable": (script("sleep $((UNKNOWN + 1))"), OPEN),
        "output of an unknown program": (script("sleep $(date)"), OPEN),
        "the output of a program": (script("exit `cat /code`"), OPEN),
        "unknown output that is not used": (script("echo $(date) started; sleep 3"), (3.0, 0)),
        "a loop": (script("while true; do echo x; sleep 1; done"), (FOREVER, 0)),
        "endless loop with an unknown program": (script("while :; do ./work | tee log; done"), (FOREVER, 0)),
        "until": (script("until false; do sleep 1; done"), (FOREVER, 0)),
        "a loop that waits": (script("while sleep 10; do :; done"), (FOREVER, 0)),
        "break in a loop": (script("while true; do sleep 2; break; done; exit 1"), (2.0, 1)),
        "a loop that exits": (script("while true; do sleep 2; exit 9; done"), (2.0, 9)),
        "a loop that may exit": (script("while true; do ./work || exit 1; done"), OPEN),
        "until an unknown program succeeds": (script("until nslookup db; do sleep 2; done"), OPEN),
        "for with words": (script("for i in 1 2 3; do sleep $i; done"), (6.0, 0)),
        "for with seq": (script("for i in $(seq 1 4); do sleep 1; done; exit 2"), (4.0, 2)),
        "for with glob": (script("for i in *; do sleep 1; done"), OPEN),
        "if": (script("if true; then sleep 1; else sleep 2; fi"), (1.0, 0)),
        "elif": (script("if false; then sleep 1; elif true; then sleep 5; fi"), (5.0, 0)),
        "test of a file": (script("if [ -f /x ]; then exit 1; fi"), OPEN),
        "test of a variable": (script('N=3; [ "$N" -gt 2 ] && exit 5'), (0.0, 5)),
        "test of texts": (script("if [ a = b ]; then exit 1; elif test a != b; then exit 2; fi"), (0.0, 2)),
        "negated test": (script("if [ ! a == b ]; then exit 1; fi"), (0.0, 1)),
        "test of a variable that is unknown": (script('if [ "$A" = b ]; then exit 1; fi'), OPEN),
        "test of a pattern": (script("[[ abc == a* ]] && exit 1"), OPEN),
        "test of an empty text": (script("[ -z '' ] && [ ! -n '' ] && exit 6"), (0.0, 6)),
        "test of no number": (script("[ a -lt 2 ]; exit $?"), (0.0, 2)),
        "conditions combined": (script("[[ a == a && b == c ]] || exit 1"), OPEN),
        "test without an end": (script("[ a = a; exit $?"), (0.0, 2)),
        "background job, waited for": (script("sleep 5 & sleep 1; wait"), (5.0, 0)),
        "background job, not waited for": (script("sleep 500 & sleep 1"), (1.0, 0)),
        "unknown program in the background": (script("./server & sleep 1; exit 1"), (1.0, 1)),
        "a trap": (script("trap 'exit 0' TERM; sleep 3"), (3.0, 0)),
        "after an unknown program": (script("apt-get update; exit 3"), OPEN),
        "redirected": (script("sleep 2 > /dev/null 2>&1"), (2.0, 0)),
        "syntax error": (script("exit 3 >"), OPEN),
        "a pipe": (script("sleep 1 | cat"), OPEN),
        "unsupported syntax": (script("case x in x) exit 3;; esac"), OPEN),
        "functions": (script("f() { exit 3; }; f"), OPEN),
        "text in the script": (script("cat <<EOF\nexit 3\nEOF\nexit 4"), OPEN),
        "quotes": (script("echo 'it''s; exit 3'"), (0.0, 0)),
        "a quote without an end": (script('echo "a; exit 3'), OPEN),
        "too deep": (script("(" * 1000), OPEN),
        "too long": (script("true;" * 100_000), OPEN),
        "a variable that doubles": (script("a=12345678; " + "a=$a$a; " * 60 + "echo $a"), OPEN),
        "large output": (script(f"a={'x' * 20_000}; echo {'$a ' * 4000}"), OPEN),
        "too many output lines": (script(f"for i in $(seq 1 1000); do echo {'x' * 30_000}; done"), OPEN),
        "too many iterations": (script("for i in $(seq 9999); do for j in $(seq 9999); do true; done; done"), OPEN),
        "agnhost pause": (("/agnhost", "pause"), (FOREVER, 0)),
        "pause": (("/pause",), (FOREVER, 0)),
    },
)
def test_outcome(words: tuple[str, ...], expected: tuple[float, int] | None) -> None:
    result = outcome_of(words)
    assert (None if result is None else (result.seconds, result.code)) == expected


ENVIRONMENT = (("INDEX", "2"), ("NAME", "web"))


@cases(
    "words, expected",
    {
        "in a script": (script("exit $INDEX"), (0.0, 2)),
        "in a script in a script": (script("sh -c 'exit $INDEX'"), (0.0, 2)),
        "expanded by the kubelet": (("sleep", "$(INDEX)"), (2.0, 0)),
        "expanded by the kubelet in a script": (script("exit $(INDEX)"), (0.0, 2)),
        "a test": (script('if [ "$INDEX" -eq 2 ]; then sleep 3; fi; exit 1'), (3.0, 1)),
        "unknown": (script("exit $OTHER"), OPEN),
        "unknown to the kubelet": (("sleep", "$(OTHER)"), OPEN),
    },
)
def test_variables_of_the_environment(words: tuple[str, ...], expected: tuple[float, int] | None) -> None:
    result = outcome_of(words, ENVIRONMENT)
    assert (None if result is None else (result.seconds, result.code)) == expected


def test_known_environment() -> None:
    metadata = ObjectMeta(name="p", namespace="n", uid="u", labels={"a": "b"}, annotations={"x.y/z": "7"})

    def field(name: str, path: str) -> Variable:
        return Variable(name=name, value_from=ValueSource(field_ref=FieldReference(field_path=path)))

    variables = (
        Variable(name="A", value="1"),
        Variable(name="B", value="$(A)-$(A)"),
        Variable(name="C", value="$(UNKNOWN)"),
        Variable(name="D", value="x" * 5000),
        Variable(name="E", value_from=ValueSource(secret_key_ref=KeyReference(name="s", key="k"))),
        field("F", "metadata.name"),
        field("G", "metadata.annotations['x.y/z']"),
        field("H", "metadata.labels['absent']"),
        field("I", "status.podIP"),
        Variable(name="A", value="2"),
    )
    known = (("A", "2"), ("B", "1-1"), ("F", "p"), ("G", "7"), ("H", ""))
    assert environment_of(metadata, variables) == known


@cases(
    "words, output",
    {
        "echo": (("echo", "hello", "world"), [(0.0, "hello world")]),
        "timestamps of lines": (script("echo a; sleep 2; echo b >&2"), [(0.0, "a"), (2.0, "b")]),
        "-n": (script("echo -n a; echo b"), [(0.0, "ab")]),
        "lines": (script("echo 'a\nb'"), [(0.0, "a"), (0.0, "b")]),
        "redirected output": (script("echo a > /tmp/x; echo b"), [(0.0, "b")]),
        "variables": (script("N=1; echo \"n is $N\" '$N'"), [(0.0, "n is 1 $N")]),
        "unknown output is kept as written": (script("echo at $(date)"), [(0.0, "at $(date)")]),
        "a loop": (script("for i in a b; do echo $i; sleep 1; done"), [(0.0, "a"), (1.0, "b")]),
        "counted lines": (
            script('i=0; while [ $i -lt 2 ]; do echo "$i: $(date)"; i=$((i+1)); sleep 1; done'),
            [(0.0, "0: $(date)"), (1.0, "1: $(date)")],
        ),
        "numbers": (script("seq 2; echo $(seq 2 3)"), [(0.0, "1"), (0.0, "2"), (0.0, "2 3")]),
        "printf": (script("printf 'a\\nb\\n'"), [(0.0, "a"), (0.0, "b")]),
    },
)
def test_output(words: tuple[str, ...], output: list[tuple[float, str]]) -> None:
    result = outcome_of(words)
    assert result is not None
    assert list(result.output) == output


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
def test_any_command_text_is_handled(pieces: list[str]) -> None:
    result = outcome_of(script(" ".join(pieces)))
    assert result is None or (result.seconds >= 0 and 0 <= result.code < 256)


def test_the_output_of_a_loop_is_bounded() -> None:
    result = outcome_of(script("while true; do echo x; sleep 1; done"))
    assert result is not None
    assert result.output[:2] == ((0.0, "x"), (1.0, "x"))
    assert 100 < len(result.output) < 10_000


@cases(
    "words",
    {
        "a loop over millions of numbers": script(
            "for i in $(seq 999); do for j in $(seq 1 999999); do break; done; done"
        ),
        "empty words": script("for i in $(seq 1 1999); do : " + '"" ' * 10_000 + "; done"),
        "assignments of unknown values": script("for i in $(seq 1 999); do " + "a=* " * 8_000 + "; done"),
        "redirections": script("for i in $(seq 1 1999); do : " + "<a " * 10_000 + "; done"),
        "a long loop in the background": script(
            "for i in $(seq 1 600); do while true; do foo " + "a " * 5_000 + "; done & done"
        ),
        "variables of subshells": script(
            " ".join(f"a{number}=" for number in range(4_000)) + "; for i in $(seq 1 999); do ( : ); done"
        ),
        "a script of many commands": script("true;" * 6_000),
        "a long script, again and again": script(
            f"a='{'true;' * 5_000}'; for i in $(seq 1 999); do sh -c \"$a\"; done"
        ),
        "nested brackets": script("i=0; while true; do i=$((" + "(" * 10_000 + "1" + ")" * 10_000 + ")); done"),
        "long arithmetic": script("i=0; while true; do i=$((" + "1+" * 15_000 + "1)); done"),
        "nested commands": script("i=" + "$(" * 8_000 + ")" * 8_000),
        "many commands": script("for i in $(seq 1 1999); do x=$(echo $i); y=$(expr $x + 1); done"),
        "many commands in one word": script("for i in $(seq 1 1999); do : " + "$(:)" * 900 + "; done"),
        "numbers of seq": script("while true; do x=$(seq 999999); done"),
        "programs that run programs": ("env",) * 300 + ("",) * 400_000,
        "references to a long value": ("echo", *["$(A)" * 8_000] * 40),
    },
)
def test_no_command_takes_long(words: tuple[str, ...]) -> None:
    """Each took seconds, or hundreds of megabytes."""
    began = time.process_time()
    outcome_of(words, (("A", "x" * 1_000),))
    assert time.process_time() - began < 0.25


def test_references_of_the_environment_are_expanded_within_a_limit() -> None:
    variables = [Variable("A", "x" * 1_000), Variable("B", "$(A)" * 1_000_000), Variable("C", "$(A)!")]
    tracemalloc.start()
    try:
        assert dict(environment_of(ObjectMeta(), variables)) == {"A": "x" * 1_000, "C": "x" * 1_000 + "!"}
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


def test_outcomes_of_long_commands_are_not_cached() -> None:
    before = container_commands._cached_outcome.cache_info().misses
    assert outcome_of(script("exit 3 # " + "x" * 5000)) == Outcome(0.0, 3)
    assert container_commands._cached_outcome.cache_info().misses == before


def test_the_termination_message_is_the_content_of_its_file() -> None:
    result = outcome_of(script("echo -n DONE > /dev/termination-log; echo b; exit 1"))
    assert result == Outcome(seconds=0.0, code=1, output=((0.0, "b"),), message="DONE")


@cases(
    "words, expected",
    {
        "a shell": (("sh",), True),
        "a path and options": (("/bin/bash", "-l", "--norc"), True),
        "a script": (("bash", "-lc", "echo x"), False),
        "a script in a file": (("sh", "run.sh"), False),
        "another program": (("sleep", "5"), False),
    },
)
def test_commands_that_wait_for_input(words: tuple[str, ...], expected: bool) -> None:
    assert reads_input(words) is expected


@cases(
    "words, image, expected",
    {
        "image of a known server": ((), "nginx", True),
        "image with registry and digest": ((), "docker.io/library/redis:7@sha256:" + "0" * 64, True),
        "pause": ((), "registry.k8s.io/pause:3.10", True),
        "image of an unknown program": ((), "example.com/my-app:v1", False),
        "a server as the command": (("nginx", "-g", "daemon off;"), "example.com/my-app", True),
        "server with any options": (("nginx", "-t"), "nginx", True),
        "a server of a language": (("python3", "-m", "http.server"), "python", True),
        "other command in the image of a server": (("migrate",), "postgres", False),
        "agnhost's servers": (("netexec",), "registry.k8s.io/e2e-test-images/agnhost:2.40", True),
    },
)
def test_servers(words: tuple[str, ...], image: str, expected: bool) -> None:
    assert runs_on(words, image) is expected
