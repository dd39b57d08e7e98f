"""14-startup: requests of a starting manager, and 16-leader-election: a change of the leader."""

import itertools
import re
from collections import Counter

import pytest
from tests.traces.canonical import Trace, assert_same
from tests.traces.managers import UPSTREAMS, start_up, take_over
from tests.traces.records import Record, recorded

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
START = "14-startup"
RENEWAL = 2.0
JITTERED = (2.0, 4.41)
"""How long a waiting manager pauses: the period, and up to 1.2 times more."""
LEASE_DURATION = 15.0


def watches(records: list[Record]) -> list[Record]:
    """Watches of whole resources. The single objects that upstream watches are for delegated authentication."""
    return [record for record in records if record.verb == "watch" and "fieldSelector" not in record.query]


def test_informers_start_with_a_watch_list() -> None:
    actual, expected = start_up().records, recorded("14-startup")
    # What the manager before it attached, a cache that is behind may not show (docs/controllers).
    assert [record.resource for record in actual if record.verb == "list"] == ["volumeattachments"]
    for record in watches(actual):
        assert set(record.query) == set(watches(expected)[0].query)
        limit = int(record.query["timeoutSeconds"])
        assert 300 <= limit < 600
        assert record.query["timeout"] == re.sub(r"^0m", "", f"{limit // 60}m{limit % 60}s")
        fixed = {key: value for key, value in record.query.items() if not key.startswith("timeout")}
        assert fixed == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        }


def test_every_resource_is_watched_once_by_the_manager() -> None:
    actual, expected = watches(start_up().records), watches(recorded("14-startup"))
    times = Counter((record.group, record.resource) for record in actual)
    assert [resource for resource, watched in times.items() if watched > 1] == []
    assert set(times) == {(record.group, record.resource) for record in expected}
    assert {record.user for record in actual} == {record.user for record in expected} == {"kube-controller-manager"}


def test_unread_resources_are_watched_as_partial_metadata() -> None:
    """Upstream's typed factory watches every built-in kind whole, as soon as the garbage collector asks for it."""
    actual = watches(start_up().records)
    whole = {
        watch.kind.resource for descriptor in UPSTREAMS for watch in descriptor.watches if not watch.field_selector
    }
    forms = {record.resource: (record.agent, "PartialObjectMetadata" in record.accept) for record in actual}
    for resource, form in forms.items():
        assert form == (("shared-informers", False) if resource in whole else ("metadata-informers", True))


def test_discovery_is_aggregated() -> None:
    for records in (start_up().records, recorded("14-startup")):
        paths = [record for record in records if record.resource.startswith("/api")]
        assert {record.resource for record in paths} == {"/api", "/apis"}
        assert all(record.accept.startswith(AGGREGATED) for record in paths)


def test_lease_is_created_and_renewed() -> None:
    actual, expected = Trace(start_up().records), Trace(recorded("14-startup"))
    for lines in zip(*(trace.lines(leases(trace.records)) for trace in (actual, expected)), strict=True):
        assert_same(*([line] for line in lines))
    assert_same(*(trace.lines(r for r in trace.records if r.is_event) for trace in (actual, expected)))
    for trace in (actual, expected):
        first = leases(trace.records)[:3]
        assert first[2].t - first[0].t < 0.1


def leases(records: list[Record]) -> list[Record]:
    """The requests for the lease, without what watches all of them."""
    return [record for record in records if record.resource == "leases" and record.verb != "watch"]


def test_default_service_cidr_is_updated() -> None:
    """One patch for the finalizer, one for the status by server-side apply, in this order."""
    lines = [
        trace.lines(trace.of("service-cidrs-controller")) for trace in map(Trace, (start_up().records, recorded(START)))
    ]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 2


def test_leader_change(seed: int) -> None:
    actual, expected = Trace(take_over(seed).records), Trace(recorded("16-leader-election"))
    # How often each renews and looks follows from the times, which are checked below.
    assert set(actual.lines(leases(actual.records))) == set(expected.lines(leases(expected.records)))
    assert_same(*(trace.lines(r for r in trace.records if r.is_event) for trace in (actual, expected)))
    for trace in (actual, expected):
        check_take_over(leases(trace.records))


def check_take_over(sent: list[Record]) -> None:
    """Assertions for every takeover, ours and the recorded ones."""
    former = [record for record in sent if record.process == "A"]
    assert {record.verb for record in former} == {"update"}, "a renewal is a PUT alone"
    assert gaps(former) == pytest.approx([RENEWAL] * (len(former) - 1), abs=0.02)
    latter = [record for record in sent if record.process == "B"]
    tries = [record for record in latter if record.verb == "get"]
    assert all(JITTERED[0] <= gap <= JITTERED[1] for gap in gaps(tries))
    updates, renewed = [record for record in latter if record.verb == "update"][:2]
    assert tries[-1].t <= updates.t <= renewed.t < tries[-1].t + 0.1, "GET, PUT, and at once the first renewal"
    # B only knows renewals from its own reads: the last one that returned a new renewal counts.
    last_renewal = former[-1].t
    taken_over_at = next(record.t for record in tries if record.t > last_renewal)
    assert updates.t > taken_over_at + LEASE_DURATION
    assert [record.t for record in tries if record.t > taken_over_at + LEASE_DURATION] == [tries[-1].t], (
        "at its first try"
    )
    assert updates.body["spec"]["leaseTransitions"] == former[-1].body["spec"]["leaseTransitions"] + 1


def gaps(records: list[Record]) -> list[float]:
    """Seconds between one and the next."""
    return [after.t - before.t for before, after in itertools.pairwise(records)]
