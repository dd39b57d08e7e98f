"""One kubectl v1.36 session on kube-apiserver and on our server: the same output, field by field.

The real one is v1.20.2. Its answers are recorded in ``golden/kubectl_session_real.json``; with ``--soak`` or
``--write-golden`` the session also runs on it, and what is recorded is compared, or written. Fields that releases have
added since are not compared, nor is the output of steps that are marked ``newer``. What pilothouse prints there is in
``golden/kubectl_session.json``: written with kubectl v1.36.4, and read beside the source of v1.36.2.
"""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.clients.kubectl_session.comparison import differences, lines
from tests.clients.kubectl_session.runner import Step, run_script
from tests.clients.kubectl_session.script import SCRIPT
from tests.clients.kubectl_session.sides import Answer, Side, missing_programs, running_sides
from tests.golden import Golden
from tests.tables import cases

pytestmark = [
    pytest.mark.real(cluster="own"),
    pytest.mark.timeout(600),  # about a minute where nothing else runs
    pytest.mark.skipif(bool(missing_programs()), reason=missing_programs() or "all there"),
]

Answers = dict[str, Answer]
ANSWERED = [step for step in SCRIPT if not step.watch]
NEWER = [step for step in ANSWERED if step.newer]
RECORDED = Path(__file__).parent / "golden" / "kubectl_session_real.json"


def read_recorded() -> Answers:
    """The real server's answers."""
    answers: Answers = {}
    for name, (code, out, err) in json.loads(RECORDED.read_text()).items():
        answers[name] = Answer(code, "\n".join(out), "\n".join(err))
    return answers


def write_recorded(answers: Mapping[str, Answer], directory: Path) -> None:
    """Write the responses, without the working directory's path."""

    def text(output: str) -> list[str]:
        return output.replace(str(directory), "/session").split("\n")

    recorded = {name: (answer.code, text(answer.out), text(answer.err)) for name, answer in answers.items()}
    RECORDED.write_text(json.dumps(recorded, indent=0, ensure_ascii=False) + "\n")


def run_session(side: Side) -> Answers:
    answers: Answers = {}
    run_script(side, SCRIPT, answers)
    return answers


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config, soak: bool
) -> tuple[Answers, Answers]:
    """The answers of both sides."""
    writes = bool(pytestconfig.getoption("--write-golden"))
    directory = tmp_path_factory.mktemp("session")
    with running_sides(directory, with_real=soak or writes) as sides, ThreadPoolExecutor(2) as threads:
        actual, *real = threads.map(run_session, sides)
    if writes:
        write_recorded(real[0], directory)
    recorded = read_recorded()
    assert recorded.keys() == actual.keys(), "the script has changed: record the session again with --write-golden"
    for answers in real:
        result = [
            difference for step in ANSWERED for difference in differences(step, answers[step.name], recorded[step.name])
        ]
        assert not result, "\n".join(
            ["the real server answers differently than recorded (actual: the record)", *result]
        )
    return recorded, actual


def test_output_equals_kube_apiservers(answers: tuple[Answers, Answers]) -> None:
    real, actual = answers
    result = [difference for step in ANSWERED for difference in differences(step, real[step.name], actual[step.name])]
    assert not result, "\n".join(result)


def test_newer_output_equals_the_golden_file(answers: tuple[Answers, Answers], golden: Golden) -> None:
    actual = answers[1]
    printed = {step.name: [*lines(step, actual[step.name].out), *lines(step, actual[step.name].err)] for step in NEWER}
    golden.check("kubectl_session", printed)


@pytest.mark.parametrize("step", NEWER, ids=lambda step: step.name)
def test_only_changed_steps_are_marked_newer(answers: tuple[Answers, Answers], step: Step) -> None:
    real, actual = (answers[step.name] for answers in answers)
    assert [lines(step, real.out), lines(step, real.err)] != [lines(step, actual.out), lines(step, actual.err)]


@cases(
    "step, code, text",
    {
        "a deployment rolls out": ("rollout status", 0, "successfully rolled out"),
        "a node is drained": ("drain", 0, "node/node-0 drained"),
        "a certificate is approved": ("approve it", 0, "jane approved"),
        "top has nothing to show": ("top has no metrics of nodes", 1, ""),
        "a namespace is deleted": ("delete the namespace", 0, "deleted"),
    },
)
def test_commands_succeed_on_kube_apiserver(answers: tuple[Answers, Answers], step: str, code: int, text: str) -> None:
    """Two sides that both fail would agree, too."""
    answer = answers[0][step]
    assert answer.code == code, answer
    assert text in answer.out


def test_session_has_at_least_sixty_commands() -> None:
    assert sum(1 for step in SCRIPT if step.line) >= 60
    assert len({step.name for step in SCRIPT}) == len(SCRIPT), "names are unique"
