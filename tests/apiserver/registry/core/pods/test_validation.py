"""Validation of pods: fields and reasons as kube-apiserver v1.20.2 returns them for the same requests."""

from typing import Any

from tests.apiserver.api import PODS, Api, Object, pod
from tests.tables import cases

REQUIRED, INVALID, UNSUPPORTED = "FieldValueRequired", "FieldValueInvalid", "FieldValueNotSupported"
FORBIDDEN, DUPLICATE = "FieldValueForbidden", "FieldValueDuplicate"
_PORT = {"containerPort": 80, "hostPort": 80}


def _c(**fields: Any) -> Object:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


def _affinity(**fields: Any) -> Object:
    return {"affinity": fields}


_HARD = "requiredDuringSchedulingIgnoredDuringExecution"
_ROWS: dict[str, tuple[Object, list[tuple[str, str]]]] = {
    "a probe of nothing": (_c(livenessProbe={}), [("spec.containers[0].livenessProbe", REQUIRED)]),
    "a hook of nothing": (_c(lifecycle={"postStart": {}}), [("spec.containers[0].lifecycle.postStart", REQUIRED)]),
    "variables from nowhere": (_c(envFrom=[{}]), [("spec.containers[0].envFrom", INVALID)]),
    "a variable from nowhere": (
        _c(env=[{"name": "A", "valueFrom": {}}]),
        [("spec.containers[0].env[0].valueFrom", INVALID)],
    ),
    "a negative user": (
        _c(securityContext={"runAsUser": -1}),
        [("spec.containers[0].securityContext.runAsUser", INVALID)],
    ),
    "a negative user for all": ({"securityContext": {"runAsUser": -1}}, [("spec.securityContext.runAsUser", INVALID)]),
    "a resource of no name": (
        _c(resources={"requests": {"foo": "1"}}),
        [("spec.containers[0].resources.requests[foo]", INVALID)] * 2,
    ),
    "a resource that cannot be shared": (
        _c(resources={"requests": {"a.b/c": "1"}}),
        [("spec.containers[0].resources.limits", REQUIRED)],
    ),
    "a device that is not there": (
        _c(volumeDevices=[{"name": "x", "devicePath": "/x"}]),
        [("spec.containers[0].volumeDevices[0].name", "FieldValueNotFound")],
    ),
    "a message policy that is none": (
        _c(terminationMessagePolicy="X"),
        # v1.20 calls it invalid; releases since list what is supported.
        [("spec.containers[0].terminationMessagePolicy", UNSUPPORTED)],
    ),
    "several things in one container": (
        _c(imagePullPolicy="X", ports=[{"containerPort": 0}], livenessProbe={}),
        [
            ("spec.containers[0].ports[0].containerPort", REQUIRED),
            ("spec.containers[0].imagePullPolicy", UNSUPPORTED),
            ("spec.containers[0].livenessProbe", REQUIRED),
        ],
    ),
    "nodes that match no term": (
        _affinity(nodeAffinity={_HARD: {"nodeSelectorTerms": []}}),
        [(f"spec.affinity.nodeAffinity.{_HARD}.nodeSelectorTerms", REQUIRED)],
    ),
    "pods of no place": (
        _affinity(podAntiAffinity={_HARD: [{"topologyKey": ""}]}),
        [
            (f"spec.affinity.podAntiAffinity.{_HARD}[0].topologyKey", REQUIRED),
            (f"spec.affinity.podAntiAffinity.{_HARD}[0].topologyKey", INVALID),
            (f"spec.affinity.podAntiAffinity.{_HARD}[0].topologyKey", INVALID),
        ],
    ),
    "spread over nothing": (
        {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}]},
        [
            ("spec.topologySpreadConstraints[0].maxSkew", INVALID),
            ("spec.topologySpreadConstraints[0].topologyKey", REQUIRED),
            ("spec.topologySpreadConstraints[0].whenUnsatisfiable", UNSUPPORTED),
        ],
    ),
    "handlers that lead nowhere": (
        _c(
            livenessProbe={"httpGet": {"port": 0}},
            readinessProbe={"tcpSocket": {"port": "a--b"}, "terminationGracePeriodSeconds": 0},
            startupProbe={"grpc": {"port": 65536}},
            lifecycle={"postStart": {"exec": {}}, "preStop": {"sleep": {"seconds": 31}, "exec": {"command": ["a"]}}},
        ),
        [
            ("spec.containers[0].lifecycle.postStart.exec.command", REQUIRED),
            ("spec.containers[0].lifecycle.preStop.sleep", FORBIDDEN),
            ("spec.containers[0].livenessProbe.httpGet.port", INVALID),
            ("spec.containers[0].readinessProbe.tcpSocket.port", INVALID),
            *[("spec.containers[0].readinessProbe.terminationGracePeriodSeconds", INVALID)] * 2,
            ("spec.containers[0].startupProbe.grpc.port", INVALID),
        ],
    ),
    "a page that is asked for in an odd way": (
        _c(livenessProbe={"httpGet": {"port": "http", "scheme": "FTP", "httpHeaders": [{"name": "a b", "value": ""}]}}),
        [
            ("spec.containers[0].livenessProbe.httpGet.scheme", UNSUPPORTED),
            ("spec.containers[0].livenessProbe.httpGet.httpHeaders", INVALID),
        ],
    ),
    "a hook that sleeps longer than the pod has": (
        _c(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
        [("spec.containers[0].lifecycle.preStop.sleep", INVALID)],
    ),
    "two containers of no name": (
        {"containers": [{"image": "i"}, {"image": "i"}], "initContainers": [{"image": "i"}]},
        [
            ("spec.containers[0].name", REQUIRED),
            ("spec.containers[1].name", REQUIRED),
            ("spec.containers[1].name", DUPLICATE),
            ("spec.initContainers[0].name", REQUIRED),
            ("spec.initContainers[0].name", DUPLICATE),
        ],
    ),
    "two init containers of no name": (
        {"containers": [{"name": "c", "image": "i"}], "initContainers": [{"image": "i"}, {"image": "i"}]},
        [("spec.initContainers[0].name", REQUIRED), ("spec.initContainers[1].name", REQUIRED)],
    ),
    "a port of the host that two containers want": (
        {
            "containers": [{"name": name, "image": "i", "ports": [_PORT]} for name in "ab"],
            "initContainers": [{"name": name, "image": "i", "ports": [_PORT]} for name in "cd"],
        },
        [("spec.containers[1].ports[0].hostPort", DUPLICATE)],
    ),
    "an image with spaces": (_c(image=" i"), [("spec.containers[0].image", INVALID)]),
    "devices that are no blocks, and where something is": (
        {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "volumeMounts": [{"name": "v", "mountPath": "/x"}],
                    "volumeDevices": [{"name": "v", "devicePath": "/x"}, {"name": "v", "devicePath": "/../y"}],
                }
            ],
        },
        [
            ("spec.containers[0].volumeMounts[0].name", INVALID),
            ("spec.containers[0].volumeMounts[0].mountPath", INVALID),
            *[("spec.containers[0].volumeDevices[0].name", INVALID)] * 2,
            ("spec.containers[0].volumeDevices[0].devicePath", INVALID),
            *[("spec.containers[0].volumeDevices[1].name", INVALID)] * 2,
            ("spec.containers[0].volumeDevices[1].devicePath", INVALID),
            ("spec.containers[0].volumeDevices[1].name", INVALID),
        ],
    ),
    "groups that are changed when somebody likes": (
        {"securityContext": {"fsGroupChangePolicy": "X"}},
        [("spec.securityContext.fsGroupChangePolicy", UNSUPPORTED)],
    ),
    "an alias and a domain that are none": (
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a b"]}], "dnsConfig": {"searches": [".", "_a.b.", "A"]}},
        [("spec.dnsConfig.searches[2]", INVALID), ("spec.hostAliases[0].hostnames[0]", INVALID)],
    ),
    "nodes by what they have no field for": (
        _affinity(
            nodeAffinity={_HARD: {"nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "In"}]}]}},
            podAffinity={_HARD: [{"topologyKey": "a", "namespaces": ["A"]}]},
        ),
        [
            (f"spec.affinity.nodeAffinity.{_HARD}.nodeSelectorTerms[0].matchFields[0].values", REQUIRED),
            (f"spec.affinity.nodeAffinity.{_HARD}.nodeSelectorTerms[0].matchFields[0].key", INVALID),
            (f"spec.affinity.podAffinity.{_HARD}[0].namespace", INVALID),
        ],
    ),
    "a node for one that still has gates": (
        {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
        [("spec.nodeName", FORBIDDEN)],
    ),
    "no DNS at all": ({"dnsPolicy": "None"}, [("spec.dnsConfig", REQUIRED)]),
    "a server without an address": (
        {"dnsConfig": {"nameservers": ["x"]}},
        [("spec.dnsConfig.nameservers[0]", INVALID)],
    ),
    "a gate of no name": (
        {"readinessGates": [{"conditionType": "a b"}]},
        [("spec.readinessGates[0].conditionType", INVALID)],
    ),
    "processes shared twice": (
        {"shareProcessNamespace": True, "hostPID": True},
        [("spec.securityContext.shareProcessNamespace", INVALID)],
    ),
    **{
        f"a {source} of no name": (
            {"volumes": [{"name": "v", source: {}}]},
            [(f"spec.volumes[0].{source}.{field}", REQUIRED)],
        )
        for source, field in (
            ("configMap", "name"),
            ("secret", "secretName"),
            ("persistentVolumeClaim", "claimName"),
            ("hostPath", "path"),
        )
    },
}


@cases("spec, causes", _ROWS)
async def test_rejected_pods(api: Api, spec: Object, causes: list[tuple[str, str]]) -> None:
    answer = await api.post(PODS, pod(**spec))
    assert answer.status == 422, answer.text
    assert [(cause["field"], cause["reason"]) for cause in answer.body["details"]["causes"]] == causes


async def test_valid_pod_is_accepted(api: Api) -> None:
    spec = {
        **_c(
            env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
            envFrom=[{"secretRef": {"name": "s"}}],
            lifecycle={"preStop": {"sleep": {"seconds": 1}}},
            resources={"limits": {"a.b/c": "1", "hugepages-2Mi": "2Mi", "cpu": "1"}},
            securityContext={"runAsUser": 0},
        ),
        "affinity": {
            "nodeAffinity": {
                _HARD: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}]},
                # What is only preferred may ask for values that no label can have.
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["a b"]}]},
                    }
                ],
            },
            "podAntiAffinity": {},
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}}
                ]
            },
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "minDomains": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.10"], "searches": ["a"], "options": [{"name": "ndots", "value": "5"}]},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
        "readinessGates": [{"conditionType": "a.b/c"}],
    }
    answer = await api.post(PODS, pod(**spec))
    assert answer.status == 201, answer.text


_ENDED = {"terminated": {"exitCode": 1}}


def _state(name: str, state: Object) -> Object:
    return {"name": name, "image": "i", "state": state}


_STATUSES: dict[str, tuple[Object, list[tuple[str, str]]]] = {
    "a node of no name": ({"nominatedNodeName": "Bad Value!"}, [("status.nominatedNodeName", INVALID)]),
    "another class of service": ({"qosClass": "Guaranteed"}, [("status.qosClass", INVALID)]),
    "a condition that is not a name": (
        {"conditions": [{"type": "a b", "status": "True"}, {"type": "Ready", "status": "True"}]},
        [("status.conditions[0].Type", INVALID)],
    ),
    "containers that run again although they have ended, but for one that goes on": (
        {
            "containerStatuses": [_state("c", {"running": {}})],
            "initContainerStatuses": [_state("on", {"running": {}}), _state("i", {"running": {}})],
        },
        [("status.containerStatuses[0].state", FORBIDDEN), ("status.initContainerStatuses[0].state", FORBIDDEN)],
    ),
}


@cases("status, causes", _STATUSES)
async def test_rejected_statuses(api: Api, status: Object, causes: list[tuple[str, str]]) -> None:
    sidecar = {"name": "on", "image": "i", "restartPolicy": "Always"}
    init_containers = [{"name": "i", "image": "i"}, sidecar]
    await api.post(PODS, pod("p", restartPolicy="Never", initContainers=init_containers))
    old_status = {
        "containerStatuses": [_state("c", _ENDED)],
        "initContainerStatuses": [_state("i", _ENDED), _state("on", _ENDED)],
    }
    before = await api.patch(f"{PODS}/p/status", {"status": old_status})
    assert before.status == 200, before.text
    answer = await api.patch(f"{PODS}/p/status", {"status": status})
    assert answer.status == 422, answer.text
    assert [(cause["field"], cause["reason"]) for cause in answer.body["details"]["causes"]] == causes
