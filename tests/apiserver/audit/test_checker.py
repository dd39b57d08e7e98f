"""Rule matching of audit policies, after upstream's ``pkg/audit/policy/checker_test.go`` (v0.36)."""

import msgspec
import pytest

from pilothouse.apiserver.audit.checker import PolicyRuleEvaluator
from pilothouse.apiserver.audit.policy import GroupResources, Policy, PolicyRule
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes

TIM = Identity("tim@k8s.io", ("humans", "developers"))
RBAC = "rbac.authorization.k8s.io"
BUSYBOX = Attributes("get", "", "v1", "pods", "", "default", "busybox")
ASKED: dict[str, tuple[Identity | None, Attributes]] = {
    "namespaced": (TIM, BUSYBOX),
    "cluster": (TIM, Attributes("get", RBAC, "v1beta1", "clusterroles", "", "", "edit")),
    "nonResource": (TIM, Attributes("get", path="/logs/kubelet.log")),
    "subresource": (TIM, msgspec.structs.replace(BUSYBOX, subresource="log")),
    "Unauthorized": (None, BUSYBOX),
    "ClusterRoleUpdate": (TIM, Attributes("update", RBAC, "v1beta1", "clusterroles", "status", "", "somerole")),
}


def _of(
    level: str,
    *resources: str,
    group: str = "",
    verb: str = "get",
    names: tuple[str, ...] = (),
    namespaces: tuple[str, ...] = (),
) -> PolicyRule:
    return PolicyRule(
        level,
        verbs=(verb,) if verb else (),
        resources=(GroupResources(group, resources, names),),
        namespaces=namespaces,
    )


RULES = {
    "default": PolicyRule("Metadata"),
    "create": PolicyRule("Request", verbs=("create",)),
    "tims": PolicyRule("Metadata", users=("tim@k8s.io",)),
    "humans": PolicyRule("Metadata", user_groups=("humans",)),
    "serviceAccounts": PolicyRule("Request", user_groups=("system:serviceaccounts",)),
    "getPods": _of("RequestResponse", "pods"),
    "getPodLogs": _of("Request", "pods/log"),
    "getPodWildcardMatching": _of("Request", "*"),
    "getPodResourceWildcardMatching": _of("Request", "*/log"),
    "getPodSubResourceWildcardMatching": _of("Request", "pods/*"),
    "getClusterRoles": _of("RequestResponse", "clusterroles", group=RBAC, namespaces=("",)),
    "getGroupWildCardMatchingWithSubresourceWildcardMatching": _of(
        "RequestResponse", "*/status", group="*", verb="update"
    ),
    "getLogs": PolicyRule("RequestResponse", verbs=("get",), non_resource_urls=("/logs*",)),
    "getMetrics": PolicyRule("Request", verbs=("get",), non_resource_urls=("/metrics",)),
    "clusterRoleEdit": _of("Request", "clusterroles", group=RBAC, verb="", names=("edit",)),
    "omit RequestReceived": PolicyRule("Request", omit_stages=("RequestReceived",)),
    "only audit panic": PolicyRule("Request", omit_stages=("RequestReceived", "ResponseStarted", "ResponseComplete")),
}


@pytest.mark.parametrize("stages", [(), ("RequestReceived", "ResponseStarted")])
@pytest.mark.parametrize(
    ("attributes", "level", "rules"),
    [
        ("namespaced", "Metadata", "default"),
        ("namespaced", "None", "create"),
        ("namespaced", "Metadata", "tims"),
        ("namespaced", "Metadata", "humans"),
        ("namespaced", "None", "serviceAccounts"),
        ("namespaced", "RequestResponse", "getPods"),
        ("namespaced", "None", "getClusterRoles"),
        ("namespaced", "None", "getLogs"),
        ("namespaced", "None", "getMetrics"),
        ("namespaced", "Metadata", "getMetrics,serviceAccounts,default"),
        ("namespaced", "RequestResponse", "getMetrics,getPods,default"),
        ("namespaced", "RequestResponse", "getPodLogs,getPods"),
        ("cluster", "Metadata", "default"),
        ("cluster", "None", "create"),
        ("cluster", "Metadata", "tims"),
        ("cluster", "Metadata", "humans"),
        ("cluster", "None", "serviceAccounts"),
        ("cluster", "None", "getPods"),
        ("cluster", "RequestResponse", "getClusterRoles"),
        ("cluster", "Request", "clusterRoleEdit,getClusterRoles"),
        ("cluster", "None", "getLogs"),
        ("cluster", "None", "getMetrics"),
        ("cluster", "Metadata", "getMetrics,serviceAccounts,default"),
        ("cluster", "RequestResponse", "getMetrics,getClusterRoles,default"),
        ("cluster", "None", "getPodLogs,getPods"),
        ("nonResource", "Metadata", "default"),
        ("nonResource", "None", "create"),
        ("nonResource", "Metadata", "tims"),
        ("nonResource", "Metadata", "humans"),
        ("nonResource", "None", "serviceAccounts"),
        ("nonResource", "None", "getPods"),
        ("nonResource", "None", "getClusterRoles"),
        ("nonResource", "RequestResponse", "getLogs"),
        ("nonResource", "None", "getMetrics"),
        ("nonResource", "Metadata", "getMetrics,serviceAccounts,default"),
        ("nonResource", "RequestResponse", "getLogs,getClusterRoles,default"),
        ("nonResource", "None", "getPodLogs,getPods"),
        ("subresource", "Request", "getPodLogs,getPods"),
        ("subresource", "Request", "getPodWildcardMatching"),
        ("subresource", "Request", "getPodResourceWildcardMatching"),
        ("subresource", "Request", "getPodSubResourceWildcardMatching"),
        ("Unauthorized", "None", "tims"),
        ("Unauthorized", "Metadata", "tims,default"),
        ("Unauthorized", "None", "humans"),
        ("Unauthorized", "Metadata", "humans,default"),
        ("ClusterRoleUpdate", "RequestResponse", "getGroupWildCardMatchingWithSubresourceWildcardMatching"),
    ],
)
async def test_first_matching_rule_determines_the_level(
    attributes: str, level: str, rules: str, stages: tuple[str, ...]
) -> None:
    policy = Policy(tuple(RULES[name] for name in rules.split(",")), omit_stages=stages)
    result = PolicyRuleEvaluator(policy).evaluate_policy_rule(*ASKED[attributes])
    assert (result.level, result.omit_stages) == (level, frozenset(stages))


@pytest.mark.parametrize("attributes", ["namespaced", "cluster", "nonResource"])
@pytest.mark.parametrize(
    ("stages", "rule", "omitted"),
    [
        ((), "omit RequestReceived", {"RequestReceived"}),
        ((), "only audit panic", {"RequestReceived", "ResponseStarted", "ResponseComplete"}),
        (("RequestReceived", "ResponseStarted"), "omit RequestReceived", {"RequestReceived", "ResponseStarted"}),
        (("Panic", "RequestReceived"), "omit RequestReceived", {"RequestReceived", "Panic"}),
    ],
)
async def test_stages_of_policy_and_rule_are_omitted(
    attributes: str, stages: tuple[str, ...], rule: str, omitted: set[str]
) -> None:
    policy = Policy((RULES[rule], RULES["getPods"], RULES["default"]), omit_stages=stages)
    result = PolicyRuleEvaluator(policy).evaluate_policy_rule(*ASKED[attributes])
    assert (result.level, result.omit_stages) == ("Request", frozenset(omitted))


@pytest.mark.parametrize(
    ("default", "rule", "wanted"),
    [(False, None, False), (True, None, True), (True, False, False), (False, True, True)],
)
async def test_rule_overrides_omit_managed_fields(default: bool, rule: bool | None, wanted: bool) -> None:
    policy = Policy(
        (PolicyRule("RequestResponse", verbs=("get",), omit_managed_fields=rule),), omit_managed_fields=default
    )
    result = PolicyRuleEvaluator(policy).evaluate_policy_rule(TIM, BUSYBOX)
    assert result.omit_managed_fields is wanted
