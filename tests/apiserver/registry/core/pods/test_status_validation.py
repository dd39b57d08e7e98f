"""Validation of pod statuses (kubernetes ``pkg/apis/core/validation/validation.go``, v1.36)."""

# ruff: noqa: E501  # messages are left whole

from tests.apiserver.api import PODS, Api, Object, all_errors_of, pod
from tests.apiserver.pod_bodies import IDS, LABEL, SUBDOMAIN, claim
from tests.tables import cases

_TERMINATED = {"terminated": {"exitCode": 42}}
_STATUSES: dict[str, tuple[Object, list[str]]] = {
    "nominatedNodeName of a bound pod": (
        {"nominatedNodeName": "m"},
        ["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"],
    ),
    "negative observedGeneration": (
        {"observedGeneration": -1, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": -1}]},
        [
            "status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer",
            "status.observedGeneration: Invalid value: -1: must be a non-negative integer",
        ],
    ),
    "restarted containers, allowed by rule and by policy, and not allowed": (
        {
            "containerStatuses": [
                {"name": name, "image": "i", "state": {"running": {}}} for name in ("c", "rule", "policy")
            ]
        },
        ["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"],
    ),
    "unknown and duplicate resource claim statuses": (
        {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "X"}, {"name": "a"}, {"name": "b"}]},
        [
            f'status.resourceClaimStatuses[0].resourceClaimName: Invalid value: "X": {SUBDOMAIN}',
            'status.resourceClaimStatuses[1].name: Duplicate value: "a"',
            'status.resourceClaimStatuses[2].name: Invalid value: "b": must match the name of an entry in '
            "`spec.resourceClaims`",
        ],
    ),
    "extended resource claim without matching requests": (
        {
            "extendedResourceClaimStatus": {
                "resourceClaimName": "",
                "requestMappings": [
                    {"containerName": "x", "resourceName": "r", "requestName": "q"},
                    {"containerName": "c", "resourceName": "r", "requestName": "Q"},
                ],
            }
        },
        [
            'status.extendedResourceClaimStatus.requestMappings[0].containerName: Invalid value: "x": must match the name '
            "of an entry in spec.initContainers.name or spec.containers.name",
            'status.extendedResourceClaimStatus.requestMappings[1].resourceName: Invalid value: "r": must match the '
            "extended resource name of an entry in spec.initContainers.resources.requests or "
            "spec.containers.resources.requests",
            f'status.extendedResourceClaimStatus.requestName: Invalid value: "Q": {LABEL}',
            "status.extendedResourceClaimStatus.resourceClaimName: Required value",
        ],
    ),
    "inconsistent host IPs": (
        {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}, {"ip": "01.2.3.4"}], "podIPs": [{"ip": "x"}]},
        [
            'status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            'status.hostIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `hostIP`',
            'status.hostIPs[1]: Invalid value: "01.2.3.4": must not have leading 0s',
            'status.hostIPs: Invalid value: [{"IP":"10.0.0.2"},{"IP":"01.2.3.4"}]: may specify no more than one IP for '
            "each IP family",
        ],
    ),
    "users and devices of containers": (
        {
            "containerStatuses": [
                {
                    "name": "c",
                    "image": "i",
                    "state": _TERMINATED,
                    "user": {"linux": {"uid": -1, "gid": 0, "supplementalGroups": [-1]}},
                    "allocatedResourcesStatus": [
                        {
                            "name": "r",
                            "resources": [{"resourceID": "a", "health": "X"}, {"resourceID": "a", "health": "Healthy"}],
                        },
                        {"name": "claim:z"},
                    ],
                }
            ],
            "ephemeralContainerStatuses": [
                {"name": "e", "image": "i", "allocatedResourcesStatus": [{"name": "cpu"}]},
            ],
        },
        [
            f"status.containerStatuses[0].user.linux.uid: Invalid value: -1: {IDS}",
            f"status.containerStatuses[0].user.linux.supplementalGroups[0]: Invalid value: -1: {IDS}",
            'status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "r": must match one of the '
            "container's resource requests",
            "status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health: Unsupported value: "
            '"X": supported values: "Healthy", "Unhealthy", "Unknown"',
            'status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID: Duplicate value: "a"',
            'status.containerStatuses[0].allocatedResourcesStatus[1].name: Invalid value: "claim:z": must match one of '
            "the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request "
            "is empty",
            "status.ephemeralContainerStatuses[0].allocatedResourcesStatus: Forbidden: must not be specified in "
            "container status",
        ],
    ),
}


@cases("status, errors", _STATUSES)
async def test_rejected_statuses(api: Api, status: Object, errors: list[str]) -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    containers: list[Object] = [
        {"name": "c", "image": "i"},
        {"name": "rule", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule]},
        {"name": "policy", "image": "i", "restartPolicy": "OnFailure"},
    ]
    spec = {"containers": containers, "restartPolicy": "Never", "nodeName": "n", **claim(resourceClaimName="x")}
    created = await api.post(PODS, pod(**spec))
    assert created.status == 201, created.text
    old_statuses = [{"name": container["name"], "image": "i", "state": _TERMINATED} for container in containers]
    answer = await api.patch(f"{PODS}/p/status", {"status": {"containerStatuses": old_statuses}})
    assert answer.status == 200, answer.text
    assert all_errors_of(await api.patch(f"{PODS}/p/status", {"status": status})) == errors


async def test_restart_all_containers_allows_restarts(api: Api) -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    containers = [
        {"name": "c", "image": "i"},
        {"name": "d", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule]},
    ]
    await api.post(PODS, pod(containers=containers, restartPolicy="Never"))
    states: list[Object] = [{"terminated": {"exitCode": 0}}, {"running": {}}]
    for state in states:
        status = {"containerStatuses": [{"name": "c", "image": "i", "state": state}]}
        answer = await api.patch(f"{PODS}/p/status", {"status": status})
    assert answer.status == 200
