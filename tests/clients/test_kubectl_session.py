"""One kubectl v1.36 session on a real kube-apiserver and on ours: the same answers, field by field.

The real one is v1.20.2. Fields that releases have added since are not compared, nor is what steps print that are
marked ``newer``. What ours prints there is in ``golden/kubectl_session.json``: written with kubectl v1.36.4, and read
beside the source of v1.36.2.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.clients.kubectl_session.comparison import differences, lines
from tests.clients.kubectl_session.script import SCRIPT
from tests.clients.kubectl_session.sides import Answer, missing_programs, two_sides
from tests.clients.kubectl_session.telling import Step, tell
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


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    """The session, told to both sides at once."""
    real: Answers = {}
    ours: Answers = {}
    with two_sides(tmp_path_factory.mktemp("session")) as sides, ThreadPoolExecutor(2) as threads:
        tellings = [
            threads.submit(tell, side, SCRIPT, answers) for side, answers in zip(sides, (real, ours), strict=True)
        ]
        for telling in tellings:
            telling.result()
    return real, ours


def test_ours_answers_as_the_real_one_does(told: tuple[Answers, Answers]) -> None:
    real, ours = told
    found = [each for step in ANSWERED for each in differences(step, real[step.name], ours[step.name])]
    assert not found, "\n".join(found)


def test_what_has_changed_since_is_printed_as_it_was(told: tuple[Answers, Answers], golden: Golden) -> None:
    ours = told[1]
    printed = {step.name: [*lines(step, ours[step.name].out), *lines(step, ours[step.name].err)] for step in NEWER}
    golden.check("kubectl_session", printed)


@pytest.mark.parametrize("step", NEWER, ids=lambda step: step.name)
def test_only_what_has_changed_is_marked(told: tuple[Answers, Answers], step: Step) -> None:
    real, ours = (answers[step.name] for answers in told)
    assert [lines(step, real.out), lines(step, real.err)] != [lines(step, ours.out), lines(step, ours.err)]


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
def test_the_real_one_does_what_is_asked(told: tuple[Answers, Answers], step: str, code: int, text: str) -> None:
    """Two sides that both fail would agree, too."""
    answer = told[0][step]
    assert answer.code == code, answer
    assert text in answer.out


def test_the_session_has_at_least_sixty_commands() -> None:
    assert sum(1 for step in SCRIPT if step.line) >= 60
    assert len({step.name for step in SCRIPT}) == len(SCRIPT), "names are unique"
