"""Pod updates with and without scheduling gates (kubernetes ``pkg/apis/core/validation/validation.go``, v1.36)."""

# ruff: noqa: E501  # messages are left whole

from tests.apiserver.api import PODS, STRATEGIC, Api, Object, all_errors_of, pod
from tests.apiserver.pod_bodies import HARD
from tests.tables import cases

_GATED: Object = {
    "schedulingGates": [{"name": "g"}],
    "nodeSelector": {"a": "b"},
    "affinity": {
        "nodeAffinity": {
            HARD: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]},
        }
    },
}
_TERMS = f"spec.affinity.nodeAffinity.{HARD}.nodeSelectorTerms"
_L = {"key": "l", "operator": "Exists"}
_K = {"key": "k", "operator": "Exists"}


def _nodes(*terms: Object) -> Object:
    return {"affinity": {"nodeAffinity": {HARD: {"nodeSelectorTerms": list(terms)}}}}


_CHANGES: dict[str, tuple[Object, list[str]]] = {
    "more restrictive node selector and affinity": (
        {"nodeSelector": {"c": "d"}, **_nodes({"matchExpressions": [_K, _L]})},
        [],
    ),
    "changed node selector": (
        {"nodeSelector": {"a": "c"}},
        [
            'spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no mutations '
            "or deletions)"
        ],
    ),
    "additional node selector term": (
        _nodes({"matchExpressions": [_K]}, {"matchExpressions": [_L]}),
        [
            f'{_TERMS}: Invalid value: [{{"MatchExpressions":[{{"Key":"k","Operator":"Exists","Values":null}}],'
            '"MatchFields":null},{"MatchExpressions":[{"Key":"l","Operator":"Exists","Values":null}],"MatchFields":null}]:'
            " no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        ],
    ),
    "changed node selector term": (
        _nodes({"matchExpressions": [_L]}),
        [
            f'{_TERMS}[0]: Invalid value: {{"MatchExpressions":[{{"Key":"l","Operator":"Exists","Values":null}}],'
            '"MatchFields":null}: only additions are allowed (no mutations or deletions)'
        ],
    ),
    "added scheduling gate": (
        {"schedulingGates": [{"name": "g"}, {"name": "h"}]},
        ["spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'h'"],
    ),
}


@cases("change, errors", _CHANGES)
async def test_updates_with_scheduling_gates(api: Api, change: Object, errors: list[str]) -> None:
    created = await api.post(PODS, pod(**_GATED))
    assert created.status == 201, created.text
    body = created.body
    body["spec"].update(change)
    if "nodeSelector" in change:
        body["spec"]["nodeSelector"] = {**({} if errors else {"a": "b"}), **change["nodeSelector"]}
    answer = await api.put(f"{PODS}/p", body)
    if errors:
        assert all_errors_of(answer) == errors
    else:
        assert answer.status == 200, answer.text


async def test_added_containers(api: Api) -> None:

    path, detail = "spec.ephemeralContainers[0]", "Forbidden: cannot be set for an Ephemeral Container"
    await api.post(PODS, pod(volumes=[{"name": "v"}]))
    container = {
        "name": "e",
        "image": " i",
        "targetContainerName": "x",
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": "X"}],
        "lifecycle": {"postStart": {}},
        "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}],
    }
    patch = {"spec": {"ephemeralContainers": [container]}}
    assert all_errors_of(await api.patch(f"{PODS}/p/ephemeralcontainers", patch, STRATEGIC)) == [
        f'{path}.image: Invalid value: " i": must not have leading or trailing whitespace',
        f'{path}.targetContainerName: Not found: "x"',
        f"{path}.resizePolicy: {detail}",
        f"{path}.restartPolicy: {detail}",
        f"{path}.restartPolicyRules: {detail}",
        f"{path}.lifecycle: {detail}",
        f"{path}.volumeMounts[0].subPath: {detail}",
    ]
