"""What one node needs. Rows mirror v1.36 ``pkg/controller/daemon/daemon_controller_test.go``."""

import pytest
from tests.controllers.daemonset.daemons import NOW, PLAIN, SURGE, ago, pod, site

from pilothouse.controllers.workloads.daemonset.manage import NOTHING, Need, decide_need
from pilothouse.controllers.workloads.daemonset.sites import Rules, Site

PATIENT = Rules(revision_hash="new", surges=True, min_ready_seconds=60)


@pytest.mark.parametrize(
    ("where", "rules", "expected"),
    [
        pytest.param(site(), PLAIN, Need(create=True), id="nothing there: create"),  # TestSimpleDaemonSetLaunchesPods
        pytest.param(site(pod("a")), PLAIN, NOTHING, id="one there: nothing"),
        pytest.param(site(run=False), PLAIN, NOTHING, id="none wanted, none there"),
        pytest.param(site(run=False, stay=True), PLAIN, NOTHING, id="none new wanted, none there"),
        pytest.param(site(pod("a"), run=False), PLAIN, Need(delete=("a",)), id="none allowed: it goes"),
        # TestSelectorDaemonDeletesUnselectedPods, TestNoExecuteTaintedDoesEvicitRunningIntolerantPod
        pytest.param(site(pod("a"), run=False, stay=True), PLAIN, NOTHING, id="may stay: it stays"),
        # TestNoScheduleTaintedDoesntEvicitRunningIntolerantPod
        pytest.param(site(pod("a", deleted=True), run=False), PLAIN, NOTHING, id="it is going already"),
        pytest.param(
            site(pod("a"), pod("b", deleted=True), run=False),
            PLAIN,
            Need(delete=("a",)),
            id="the one that is left goes",
        ),
        pytest.param(
            site(pod("a", deleted=True)), PLAIN, NOTHING, id="a pod that is going holds its place"
        ),  # TestDaemonSetRespectsTermination
        pytest.param(
            site(pod("a", deleted=True, phase="Failed")),
            PLAIN,
            Need(create=True),
            id="but not one that ended and is going: kubernetes#95711",
        ),
        pytest.param(
            site(pod("b", created=ago(minutes=1)), pod("a", created=ago(minutes=2))),
            PLAIN,
            Need(delete=("b",)),
            id="two: the older one stays",
        ),  # TestDealsWithExistingPods
        pytest.param(
            site(pod("a", pinned="n1", created=ago(minutes=2)), pod("b", created=ago(minutes=1))),
            PLAIN,
            Need(delete=("a",)),
            id="two: the one with a node stays, though younger",
        ),
        pytest.param(
            site(pod("b", created=NOW), pod("a", created=NOW)), PLAIN, Need(delete=("b",)), id="two of one age: by name"
        ),
        pytest.param(
            site(pod("a", phase="Failed")), PLAIN, Need(delete=("a",), failed="a"), id="failed: it goes, no create yet"
        ),  # TestDaemonKillFailedPods
        pytest.param(
            site(pod("a", phase="Failed"), pod("b", phase="Failed")),
            PLAIN,
            Need(delete=("a",), failed="a", waits=True),
            id="two failed: one at a time",
        ),
        pytest.param(
            site(pod("a", phase="Succeeded")),
            PLAIN,
            Need(delete=("a",), succeeded=("a",)),
            id="ended well: it goes too",
        ),  # TestDaemonKillSucceededPods
        pytest.param(
            site(pod("a", phase="Failed"), pod("b")), PLAIN, Need(delete=("a",), failed="a"), id="failed beside running"
        ),
        pytest.param(
            site(pod("a", phase="Failed"), pod("b"), pod("c"), pod("d")),
            PLAIN,
            Need(delete=("a", "c", "d"), failed="a"),
            id="failed beside three: it goes, and all but the oldest",
        ),  # TestDaemonKillFailedPods: "1 failed pod (kill 1), 3 normal pods (kill 2)"
        pytest.param(site(pod("a", phase="Failed", deleted=True), pod("b")), PLAIN, NOTHING, id="failed and going"),
        pytest.param(
            site(pod("a", pinned="n1"), pod("b"), listed=False),
            PLAIN,
            Need(delete=("a",)),
            id="no such node: only what was never bound goes",
        ),  # TestDeletePodForNotExistingNode
        # During a surge
        pytest.param(site(), SURGE, Need(create=True), id="surge, nothing there: create"),
        pytest.param(
            site(pod("a", deleted=True)), SURGE, Need(create=True), id="surge: no waiting for a pod that is going"
        ),  # TestSurgeCreatesNewPodWhenAtMaxSurgeAndOldPodDeleted
        pytest.param(site(pod("a", deleted=True), run=False, stay=True), SURGE, NOTHING, id="surge, none new wanted"),
        pytest.param(site(pod("a", hash="old"), pod("b")), SURGE, Need(delete=("a",)), id="surge: the new one serves"),
        pytest.param(
            site(pod("a", hash="old"), pod("b", ready=False)), SURGE, NOTHING, id="surge: the old one serves until then"
        ),  # TestSurgePreservesReadyOldPods
        pytest.param(
            site(pod("a", hash="old", ready=False), pod("b", ready=False)),
            SURGE,
            Need(delete=("a",)),
            id="surge: the old one serves nobody",
        ),
        pytest.param(
            site(
                pod("a", hash="", created=ago(seconds=100), ready=False),
                pod("b", hash="", created=ago(seconds=90)),
                pod("c", created=ago(seconds=50), ready=False),
            ),
            SURGE,
            Need(delete=("b", "a")),
            id="surge: nor does the oldest of two old ones; the other one is too many though it serves",
        ),  # TestSurgeDeletesUnreadyOldPods
        pytest.param(
            site(
                pod("a", hash="", created=ago(seconds=100)),
                pod("b", hash="", created=ago(seconds=90)),
                pod("c", created=ago(seconds=50), ready=False),
            ),
            SURGE,
            Need(delete=("b",)),
            id="surge: the older of two old ones serves, the other one is too many",
        ),  # TestSurgePreservesReadyOldPods
        pytest.param(
            site(pod("a", created=NOW, ready=False), pod("b", created=NOW)),
            PLAIN,
            Need(delete=("a",)),
            id="two of one second: the one that is ready stays",
        ),
        pytest.param(
            site(pod("a", hash="old"), pod("b", since=ago(seconds=50))),
            PATIENT,
            NOTHING,
            id="surge: the new one is ready, but not for long enough",
        ),  # TestSurgePreservesOldReadyWithUnsatisfiedMinReady
        pytest.param(
            site(pod("a", hash="old"), pod("b", since=ago(seconds=61))),
            PATIENT,
            Need(delete=("a",)),
            id="surge: the new one is ready for long enough",
        ),
        pytest.param(
            site(
                pod("a", hash="", created=ago(seconds=100)),
                pod("b", hash="", created=ago(seconds=90)),
                pod("c", created=ago(seconds=80), since=ago(seconds=61)),
            ),
            PATIENT,
            Need(delete=("b", "a")),
            id="surge: then all old ones go",
        ),  # TestSurgeDeletesOldReadyWithUnsatisfiedMinReady
        pytest.param(
            site(pod("a", hash="old", since=ago(seconds=5)), pod("b", ready=False)),
            PATIENT,
            NOTHING,
            id="surge: for the old one being ready is enough",
        ),
        pytest.param(
            site(
                pod("a", created=ago(minutes=4), ready=False),
                pod("b", created=ago(minutes=3), hash="old"),
                pod("c", created=ago(minutes=2)),
                pod("d", created=ago(minutes=1), hash="older"),
            ),
            SURGE,
            Need(delete=("c", "d")),
            id="surge: one new and one old stay, the oldest of each",
        ),  # TestSurgeDealsWithExistingPods
    ],
)
def test_a_node_gets_what_it_needs(where: Site, rules: Rules, expected: Need) -> None:
    assert decide_need(where, rules, NOW) == expected


def test_a_failed_pod_waits_for_the_backoff_of_its_node() -> None:
    """TestDaemonKillFailedPodsBackoff."""
    failed = site(pod("a", phase="Failed"), pod("b", phase="Succeeded"))
    assert decide_need(failed, PLAIN, NOW, in_backoff=True) == Need(delete=("b",), succeeded=("b",), waits=True)


def test_during_a_surge_the_next_pod_waits_with_the_failed_one() -> None:
    """Unlike upstream, which makes one pod after the other where a kubelet refuses them at once."""
    failed = site(pod("a", phase="Failed"))
    assert decide_need(failed, SURGE, NOW, in_backoff=True) == Need(waits=True)
    assert decide_need(failed, SURGE, NOW) == Need(create=True, delete=("a",), failed="a")
