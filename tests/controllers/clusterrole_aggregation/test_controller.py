"""ClusterRole aggregation.

Rows mirror ``TestSyncClusterRole`` in
``pkg/controller/clusterroleaggregation/clusterroleaggregation_controller_test.go`` of v1.36.
"""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from tests.controllers import node_world
from tests.controllers.node_world import Doc, World, started
from tests.programs import ROOT
from tests.tables import cases

from pilothouse.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from pilothouse.api.rbac import AggregationRule, ClusterRole, PolicyRule
from pilothouse.client.interceptor import Rule, delay, fail, gone, lose_answer
from pilothouse.controllers.identity.clusterrole_aggregation import DESCRIPTOR
from pilothouse.controllers.identity.clusterrole_aggregation.decide import desired_rules, rules_to_apply
from pilothouse.env import Env

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BOOTSTRAP = ROOT / "tests/apiserver/data/rbac.json"
BAR, NOT_BAR = {"foo": "bar"}, {"foo": "not-bar"}
NAILS = PolicyRule(verbs=("hammer",), resources=("nails",))
WEDGES = PolicyRule(verbs=("hammer",), resources=("wedges",))
MORTISES = PolicyRule(verbs=("chisel",), resources=("mortises",))
BOARDS = PolicyRule(verbs=("saw",), resources=("boards",))


def role(name: str, labels: dict[str, str], *rules: PolicyRule) -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name=name, labels=labels), rules=rules)


def combined(*selectors: dict[str, str], rules: tuple[PolicyRule, ...] = ()) -> ClusterRole:
    picks = tuple(LabelSelector(match_labels=labels) for labels in selectors)
    rule = AggregationRule(cluster_role_selectors=picks)
    return ClusterRole(metadata=ObjectMeta(name="combined", labels=BAR), rules=rules, aggregation_rule=rule)


HAMMER = role("hammer", BAR, NAILS, WEDGES)
CHISEL = role("chisel", BAR, MORTISES)
SAW = role("saw", NOT_BAR, BOARDS)


@cases(
    "roles, aggregate, expected",
    {
        "stale rules are removed": ([HAMMER], combined(BAR, rules=(BOARDS,)), (NAILS, WEDGES)),
        "no selected role: all rules are removed": ([SAW], combined(BAR, rules=(NAILS, WEDGES)), ()),
        "selected roles are sorted by name": ([HAMMER, CHISEL, SAW], combined(BAR), (MORTISES, NAILS, WEDGES)),
        "selector by selector": ([HAMMER, CHISEL, SAW], combined(BAR, NOT_BAR), (MORTISES, NAILS, WEDGES, BOARDS)),
        "the order of selectors precedes that of names": (
            [HAMMER, CHISEL, SAW],
            combined(NOT_BAR, BAR),
            (BOARDS, MORTISES, NAILS, WEDGES),
        ),
        "duplicate rules are merged": (
            [HAMMER, CHISEL, role("saw", BAR, BOARDS), role("other-saw", NOT_BAR, BOARDS)],
            combined(BAR, NOT_BAR),
            (MORTISES, NAILS, WEDGES, BOARDS),
        ),
        "duplicates within one role": ([role("a", BAR, NAILS, NAILS), role("b", BAR, NAILS)], combined(BAR), (NAILS,)),
        "verbs in another order are a different rule": (
            [
                role("a", BAR, PolicyRule(verbs=("get", "list"), resources=("nails",))),
                role("b", BAR, PolicyRule(verbs=("list", "get"), resources=("nails",))),
            ],
            combined(BAR),
            (
                PolicyRule(verbs=("get", "list"), resources=("nails",)),
                PolicyRule(verbs=("list", "get"), resources=("nails",)),
            ),
        ),
        "an empty selector picks all others": ([HAMMER], combined({}, rules=(NAILS,)), (NAILS, WEDGES)),
        "a role does not select itself": ([], combined(BAR, rules=(NAILS,)), ()),
        "no aggregation rule: unchanged": ([HAMMER], SAW, None),
        "rules up to date: no write": ([HAMMER], combined(BAR, rules=(NAILS, WEDGES)), None),
        "no rules and no selected role: no write": ([SAW], combined(BAR), None),
        "the order is corrected": ([HAMMER], combined(BAR, rules=(WEDGES, NAILS)), (NAILS, WEDGES)),
        "the order among aggregated roles is kept": (
            [HAMMER, msgspec.structs.replace(combined(NOT_BAR), metadata=ObjectMeta(name="zzz", labels=BAR))],
            combined(BAR, rules=(WEDGES, NAILS)),
            None,
        ),
    },
)
def test_aggregated_rules(
    roles: list[ClusterRole], aggregate: ClusterRole, expected: tuple[PolicyRule, ...] | None
) -> None:
    for order in (1, -1):
        assert desired_rules(aggregate, [*roles, aggregate][::order]) == expected


def test_match_expressions_select_cluster_roles() -> None:
    picks = LabelSelector(match_expressions=(LabelSelectorRequirement(key="foo", operator="Exists"),))
    aggregate = msgspec.structs.replace(combined(), aggregation_rule=AggregationRule(cluster_role_selectors=(picks,)))
    assert desired_rules(aggregate, [HAMMER, SAW, role("x", {})]) == (NAILS, WEDGES, BOARDS)


def test_apply_contains_only_rules() -> None:
    sent = msgspec.json.decode(msgspec.json.encode(rules_to_apply(ObjectMeta(name="combined", uid="u"), (NAILS,))))
    assert sent == {
        "kind": "ClusterRole",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "combined", "uid": "u"},
        "rules": [{"verbs": ["hammer"], "resources": ["nails"]}],
    }
    assert "rules" not in rules_to_apply(ObjectMeta(name="combined", uid="u"), ()), "as WithRules() without arguments"
    url = PolicyRule(verbs=("get",), non_resource_urls=("/healthz",))
    assert msgspec.json.decode(msgspec.json.encode(url)) == {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}


# The controller


def rule(*resources: str) -> Doc:
    return {"verbs": ["get"], "apiGroups": [""], "resources": list(resources)}


def picking(name: str, **labels: str) -> Doc:
    return {"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": labels}]}}


def part(name: str, *rules: Doc, **labels: str) -> Doc:
    return {"metadata": {"name": name, "labels": labels}, "rules": list(rules)}


async def rules_of(world: World, name: str) -> list[list[str]]:
    """The resources that each rule of the role is about."""
    return [item["resources"] for item in (await world.must_get(f"{ROLES}/{name}")).get("rules") or ()]


world = started(DESCRIPTOR, seconds=1.0)


async def test_admin_edit_and_view_are_aggregated_transitively(env: Env) -> None:
    async with node_world.world(env) as world:
        for name, one in json.loads(BOOTSTRAP.read_text())["clusterroles"].items():
            if name in ("view", "edit", "admin") or name.startswith("system:aggregate-to-"):
                await world.request("POST", ROLES, {"metadata": {"name": name, "labels": one["labels"]}, **one})
        await world.start(DESCRIPTOR)
        await asyncio.sleep(5)
        by_name = {item["metadata"]["name"]: item for item in (await world.must_get(ROLES))["items"]}
        view, edit, admin = (by_name[name]["rules"] for name in ("view", "edit", "admin"))
        own = {role: by_name[f"system:aggregate-to-{role}"]["rules"] for role in ("view", "edit", "admin")}
        assert view == own["view"]
        assert edit == [*own["edit"], *view]
        assert admin == [*edit, *own["admin"]]
        owner = by_name["admin"]["metadata"]["managedFields"][0]
        assert (owner["manager"], owner["operation"]) == (DESCRIPTOR.name, "Apply")
        # Three levels and five workers: what was applied too early is applied again (upstream: six patches).
        assert 3 <= len(world.requests()) <= 6
        await asyncio.sleep(3600)
        assert len(world.requests()) <= 6, "and then there is nothing more to do"


async def test_aggregated_rules_follow_selected_roles(world: World) -> None:
    """15c-clusterrole-aggregation, step by step."""
    await world.request("POST", ROLES, picking("sum", part="yes"))
    await asyncio.sleep(1)
    assert world.requests() == [], "it has no rules, and is to have none"
    for name in "ba":
        await world.request("POST", ROLES, part(f"part-{name}", rule(f"part-{name}s"), part="yes"))
        await asyncio.sleep(1)
    assert await rules_of(world, "sum") == [["part-as"], ["part-bs"]]
    await world.merge(f"{ROLES}/part-a", {"rules": [rule("other"), rule("part-bs")]})
    await asyncio.sleep(1)
    assert await rules_of(world, "sum") == [["other"], ["part-bs"]]
    await world.merge(f"{ROLES}/part-a", {"metadata": {"labels": {"part": None}}})
    await asyncio.sleep(1)
    assert await rules_of(world, "sum") == [["part-bs"]]
    await world.delete(f"{ROLES}/part-b")
    await asyncio.sleep(1)
    assert await rules_of(world, "sum") == []
    assert set(world.requests()) == {"patch clusterroles sum"} and len(world.requests()) == 5


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param(1, [["mine"]], id="a manual change is reverted"),
        pytest.param(0, [["secrets"]], id="without selected roles rules of others remain"),
    ],
)
async def test_manually_written_rules(world: World, parts: int, expected: list[list[str]]) -> None:
    for number in range(parts):
        await world.request("POST", ROLES, part(f"part-{number}", rule("mine"), part="yes"))
    await world.request("POST", ROLES, {**picking("sum", part="yes"), "rules": [rule("secrets")]})
    await asyncio.sleep(1)
    assert await rules_of(world, "sum") == expected
    await world.merge(f"{ROLES}/sum", {"rules": [rule("secrets")], "metadata": {"labels": {"kept": "yes"}}})
    await asyncio.sleep(1)
    assert await rules_of(world, "sum") == expected
    assert (await world.must_get(f"{ROLES}/sum"))["metadata"]["labels"] == {"kept": "yes"}
    sent = len(world.requests())
    await asyncio.sleep(3600)
    assert len(world.requests()) == sent, "nothing is applied over and over"


async def test_roles_selecting_each_other_converge(world: World) -> None:
    one, other = picking("one", part="two"), picking("two", part="one")
    one["metadata"]["labels"], other["metadata"]["labels"] = {"part": "one"}, {"part": "two"}
    for item in (one, other, part("x", rule("xs"), part="one"), part("y", rule("ys"), part="two")):
        await world.request("POST", ROLES, item)
    await asyncio.sleep(5)
    assert sorted(await rules_of(world, "one")) == sorted(await rules_of(world, "two")) == [["xs"], ["ys"]]
    sent = len(world.requests())
    await asyncio.sleep(600)
    assert len(world.requests()) == sent


@cases(
    "fault",
    {
        "a conflict": Rule(fail(409), verb="patch", resource="clusterroles", nth=1),
        "an error of the server": Rule(fail(500), verb="patch", resource="clusterroles", nth=1),
        "a cache that lags": Rule(delay(7.0), verb="watch", resource="clusterroles"),
        "an answer that is lost": Rule(lose_answer(), verb="patch", resource="clusterroles", nth=1),
    },
)
async def test_failed_apply_is_retried(world: World, fault: Any) -> None:
    world.faults.add(fault)
    await world.request("POST", ROLES, picking("sum", part="yes"))
    await world.request("POST", ROLES, part("part-a", rule("things"), part="yes"))
    await asyncio.sleep(30)
    assert await rules_of(world, "sum") == [["things"]]


async def test_falls_back_to_update_without_server_side_apply(world: World) -> None:
    world.faults.add(Rule(fail(415), verb="patch", resource="clusterroles"))
    await world.request("POST", ROLES, {**picking("sum", part="yes"), "rules": [rule("secrets")]})
    await world.merge(f"{ROLES}/sum", {"metadata": {"annotations": {"kept": "yes"}}})
    await world.request("POST", ROLES, part("part-a", rule("things"), part="yes"))
    await asyncio.sleep(10)
    assert await rules_of(world, "sum") == [["things"]]
    obj = await world.must_get(f"{ROLES}/sum")
    assert obj["metadata"]["annotations"] == {"kept": "yes"}
    assert obj["aggregationRule"] == picking("sum", part="yes")["aggregationRule"]
    sent = world.requests()
    assert sent.count("patch clusterroles sum") == sent.count("update clusterroles sum") >= 1


async def test_deleted_role_is_not_recreated_by_apply(world: World) -> None:
    """Also while the cache still has it: an apply to a missing object creates it."""
    await world.request("POST", ROLES, picking("sum", part="yes"))
    await asyncio.sleep(1)
    world.faults.add(Rule(delay(7.0), verb="watch", resource="clusterroles"))
    await world.request("POST", ROLES, part("part-a", rule("things"), part="yes"))
    await asyncio.sleep(3)
    await world.delete(f"{ROLES}/sum")
    await asyncio.sleep(60)
    assert "patch clusterroles sum" in world.requests()
    assert await world.get(f"{ROLES}/sum") is None


async def test_no_change_is_lost_when_the_watch_breaks(world: World) -> None:
    await world.request("POST", ROLES, picking("sum", part="yes"))
    await asyncio.sleep(1)
    world.faults.end_watches(resource="clusterroles", with_=gone())
    await world.request("POST", ROLES, part("part-a", rule("things"), part="yes"))
    await asyncio.sleep(30)
    assert await rules_of(world, "sum") == [["things"]]
