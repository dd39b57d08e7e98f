"""What a pod's fields say."""

import datetime

import pytest

from pilothouse.api.core import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from pilothouse.api.meta import ObjectMeta
from pilothouse.semantics import pods

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def pod(phase: str = "Running", *, deleted: bool = False, ready: str = "", since: int | None = None) -> Pod:
    at = None if since is None else NOW - datetime.timedelta(seconds=since)
    conditions = (PodCondition(type="Ready", status=ready, last_transition_time=at),) if ready else ()
    return Pod(
        metadata=ObjectMeta(deletion_timestamp=NOW if deleted else None),
        status=PodStatus(phase=phase, conditions=conditions),
    )


@pytest.mark.parametrize(
    ("seen", "active", "terminal", "terminating"),
    [
        pytest.param(pod("Pending"), True, False, False, id="pending"),
        pytest.param(pod("Running"), True, False, False, id="running"),
        pytest.param(pod(""), True, False, False, id="no phase yet"),
        pytest.param(pod("Succeeded"), False, True, False, id="succeeded"),
        pytest.param(pod("Failed"), False, True, False, id="failed"),
        pytest.param(pod("Running", deleted=True), False, False, True, id="being deleted"),
        pytest.param(pod("Failed", deleted=True), False, True, False, id="failed and being deleted"),
    ],
)
def test_life(seen: Pod, active: bool, terminal: bool, terminating: bool) -> None:
    assert (pods.is_active(seen), pods.is_terminal(seen), pods.is_terminating(seen)) == (active, terminal, terminating)


@pytest.mark.parametrize(
    ("seen", "min_ready_seconds", "left"),
    [
        pytest.param(pod(), 0, None, id="not ready"),
        pytest.param(pod(ready="False", since=60), 0, None, id="ready is False"),
        pytest.param(pod(ready="True"), 0, 0, id="ready is enough when nothing is asked for"),
        pytest.param(pod(ready="True"), 5, None, id="ready since nobody knows when"),
        pytest.param(pod(ready="True", since=5), 5, 0, id="exactly long enough"),
        pytest.param(pod(ready="True", since=3), 5, 2, id="two seconds left"),
        pytest.param(pod(ready="True", since=-10), 5, 15, id="ready in the future: clocks differ"),
    ],
)
def test_availability(seen: Pod, min_ready_seconds: int, left: float | None) -> None:
    assert pods.time_until_available(seen, min_ready_seconds, NOW) == left
    assert pods.is_available(seen, min_ready_seconds, NOW) is (left == 0)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("10", 10),
        ("-10", -10),
        ("0", 0),
        ("-008", -8),
        ("+10", 0),
        ("008", 0),
        ("", 0),
        ("1.5", 0),
        (" 1", 0),
        ("2147483647", 2147483647),
        ("2147483648", 0),
        ("9" * 5000, 0),
    ],
)
def test_deletion_cost(text: str, cost: int) -> None:
    assert pods.deletion_cost({pods.DELETION_COST: text}) == cost
    assert pods.deletion_cost({}) == 0


def test_restart_counts_of_containers_and_of_sidecars() -> None:
    seen = Pod(
        spec=PodSpec(init_containers=(Container(name="init"), Container(name="side", restart_policy="Always"))),
        status=PodStatus(
            container_statuses=(ContainerStatus(name="a", restart_count=2), ContainerStatus(name="b", restart_count=5)),
            init_container_statuses=(
                ContainerStatus(name="init", restart_count=9),
                ContainerStatus(name="side", restart_count=3),
            ),
        ),
    )
    assert pods.max_restart_counts(seen) == (5, 3)
    assert pods.max_restart_counts(Pod()) == (0, 0)


def container(cpu: str, *, sidecar: bool = False) -> Container:
    return Container(resources=ResourceRequirements(requests={"cpu": cpu}), restart_policy="Always" if sidecar else "")


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param(PodSpec(containers=(container("1"), container("500m"))), 1500, id="containers add up"),
        pytest.param(
            PodSpec(containers=(container("1"),), init_containers=(container("2"), container("3"))),
            3000,
            id="init containers run one after the other",
        ),
        pytest.param(
            PodSpec(containers=(container("1"),), init_containers=(container("1", sidecar=True), container("3"))),
            4000,
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            PodSpec(containers=(container("3"),), init_containers=(container("3"), container("1", sidecar=True))),
            4000,
            id="sidecars run beside the containers",
        ),
        pytest.param(PodSpec(containers=(container("1"),), overhead={"cpu": "250m"}), 1250, id="overhead is added"),
        pytest.param(
            PodSpec(
                containers=(container("1"),),
                resources=ResourceRequirements(requests={"cpu": "2"}),
                overhead={"cpu": "1"},
            ),
            3000,
            id="the pod's own request takes the place of the sum",
        ),
    ],
)
def test_effective_requests(spec: PodSpec, cpu: int) -> None:
    assert pods.effective_requests(Pod(spec=spec)) == {"cpu": cpu}


def test_only_cpu_counts_in_thousandths() -> None:
    spec = PodSpec(containers=(Container(resources=ResourceRequirements(requests={"cpu": "1", "memory": "1Ki"})),))
    assert pods.effective_requests(Pod(spec=spec)) == {"cpu": 1000, "memory": 1024}
