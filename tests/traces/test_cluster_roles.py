"""15c-clusterrole-aggregation, replayed, and the user-facing roles of 14-startup."""

from collections.abc import Sequence

from tests.traces.canonical import Trace, assert_same
from tests.traces.kubectl_user import KubectlUser, replay
from tests.traces.managers import start_up
from tests.traces.records import Record, recorded

SCENARIO = "15c-clusterrole-aggregation"
USER = "clusterrole-aggregation-controller"
ROLES = "apis/rbac.authorization.k8s.io/v1/clusterroles"


def without_uids(records: Sequence[Record]) -> Sequence[Record]:
    """Our patches have the role's uid, so that none is recreated."""
    for record in records:
        if record.user == USER and record.verb == "patch":
            assert record.body["metadata"].pop("uid")
    return records


async def steps(user: KubectlUser) -> None:
    """As recorded."""
    picks = {"clusterRoleSelectors": [{"matchLabels": {"agg": "yes"}}]}
    await user.request("POST", ROLES, {"metadata": {"name": "sum"}, "aggregationRule": picks, "rules": []})
    for at, name in ((2.103, "part-b"), (4.218, "part-a")):
        await user.at(at)
        rule = {"apiGroups": [""], "resources": [f"{name}s"], "verbs": ["get"]}
        labels = {"agg": "yes"}
        await user.request("POST", ROLES, {"metadata": {"name": name, "labels": labels}, "rules": [rule]})
    await user.at(6.346)
    changed, merge = {"metadata": {"labels": {"agg": "no"}}}, "application/merge-patch+json"
    await user.request("PATCH", f"{ROLES}/part-b", changed, merge)
    await user.at(8.448)
    for name in ("sum", "part-a", "part-b"):
        await user.request("DELETE", f"{ROLES}/{name}")
    await user.at(12.0)


def test_aggregated_role_is_updated_as_recorded(seed: int) -> None:
    server = replay(SCENARIO, steps, seed=seed, latency=(0.001, 0.004) if seed else None)
    actual, expected = Trace(without_uids(server.records)), Trace(recorded(SCENARIO))
    assert_same(actual.lines(actual.of(USER)), expected.lines(expected.of(USER)))
    assert [r.body["rules"] for r in actual.of(USER)] == [r.body["rules"] for r in expected.of(USER)]


def test_user_facing_roles_are_upstreams() -> None:
    """How often each is written on the way depends on what is looked at first; how it ends does not. The order in which
    the roles of the beginning list their rules is not among the facts that they were copied from."""
    actual, expected = Trace(without_uids(start_up().records)), Trace(recorded("14-startup"))
    last = [{doc["where"]: doc for doc in trace.docs(trace.of(USER))} for trace in (actual, expected)]
    for doc in (*last[0].values(), *last[1].values()):
        doc["body"]["rules"].sort(key=str)
    assert set(last[0]) == {"/admin", "/edit", "/view"}
    assert last[0] == last[1]
    assert len(expected.of(USER)) == 6
    assert len(actual.of(USER)) < 12
