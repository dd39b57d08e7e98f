"""One kubectl v1.36 session on the real kube-apiserver and on ours: the same answers, field by field.

The real one is v1.20.2. What differs because sixteen minor versions lie between the two is in
``kubectl_session/causes.py``, each with the release that changed it.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.clients.kubectl_session.causes import Cause, explain
from tests.clients.kubectl_session.comparison import Difference, differences
from tests.clients.kubectl_session.script import SCRIPT
from tests.clients.kubectl_session.sides import Answer, missing_programs, two_sides
from tests.clients.kubectl_session.telling import tell

pytestmark = [
    pytest.mark.real(cluster="own"),
    pytest.mark.timeout(600),  # about a minute where nothing else runs
    pytest.mark.skipif(bool(missing_programs()), reason=missing_programs() or "all there"),
]

Answers = dict[str, Answer]


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


@pytest.fixture(scope="module")
def judged(told: tuple[Answers, Answers]) -> tuple[list[Difference], list[Cause]]:
    """What no cause explains, and the causes that explain nothing."""
    return explain(differences(SCRIPT, *told))


def test_ours_answers_as_the_real_one_does(judged: tuple[list[Difference], list[Cause]]) -> None:
    unexplained, _unused = judged
    assert not unexplained, "\n".join(map(str, unexplained))


def test_every_cause_explains_a_difference(judged: tuple[list[Difference], list[Cause]]) -> None:
    """What is listed and not seen is wrong, or was fixed."""
    _unexplained, unused = judged
    assert not unused, "\n".join(map(str, unused))


@pytest.mark.parametrize(
    ("step", "code", "text"),
    [
        pytest.param("rollout status", 0, "successfully rolled out", id="a deployment rolls out"),
        pytest.param("drain", 0, "node/node-0 drained", id="a node is drained"),
        pytest.param("approve it", 0, "jane approved", id="a certificate is approved"),
        pytest.param("top has no metrics of nodes", 1, "", id="top has nothing to show"),
        pytest.param("delete the namespace", 0, "deleted", id="a namespace is deleted"),
    ],
)
def test_the_real_one_does_what_is_asked(told: tuple[Answers, Answers], step: str, code: int, text: str) -> None:
    """Two sides that both fail would agree, too."""
    answer = told[0][step]
    assert answer.code == code, answer
    assert text in answer.out


def test_the_session_has_at_least_sixty_commands() -> None:
    assert sum(1 for step in SCRIPT if step.line) >= 60
    assert len({step.name for step in SCRIPT}) == len(SCRIPT), "names are unique"
