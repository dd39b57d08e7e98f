"""Validation of pods: fields and reasons as kube-apiserver v1.20.2 returns them for the same requests."""

from typing import Any

from tests.apiserver.api import PODS, Api, Object, pod
from tests.tables import cases

REQUIRED, INVALID, UNSUPPORTED = "FieldValueRequired", "FieldValueInvalid", "FieldValueNotSupported"
FORBIDDEN, DUPLICATE = "FieldValueForbidden", "FieldValueDuplicate"
_PORT = {"containerPort": 80, "hostPort": 80}


def _container(**fields: Any) -> Object:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


def _affinity(**fields: Any) -> Object:
    return {"affinity": fields}


_HARD = "requiredDuringSchedulingIgnoredDuringExecution"
_ROWS: dict[str, tuple[Object, list[tuple[str, str]]]] = {
    "probe without handler": (_container(livenessProbe={}), [("spec.containers[0].livenessProbe", REQUIRED)]),
    "hook without handler": (
        _container(lifecycle={"postStart": {}}),
        [("spec.containers[0].lifecycle.postStart", REQUIRED)],
    ),
    "envFrom without source": (_container(envFrom=[{}]), [("spec.containers[0].envFrom", INVALID)]),
    "valueFrom without source": (
        _container(env=[{"name": "A", "valueFrom": {}}]),
        [("spec.containers[0].env[0].valueFrom", INVALID)],
    ),
    "negative runAsUser of a container": (
        _container(securityContext={"runAsUser": -1}),
        [("spec.containers[0].securityContext.runAsUser", INVALID)],
    ),
    "negative runAsUser of the pod": (
        {"securityContext": {"runAsUser": -1}},
        [("spec.securityContext.runAsUser", INVALID)],
    ),
    "unqualified resource name": (
        _container(resources={"requests": {"foo": "1"}}),
        [("spec.containers[0].resources.requests[foo]", INVALID)] * 2,
    ),
    "request without limit for an extended resource": (
        _container(resources={"requests": {"a.b/c": "1"}}),
        [("spec.containers[0].resources.limits", REQUIRED)],
    ),
    "volume device without volume": (
        _container(volumeDevices=[{"name": "x", "devicePath": "/x"}]),
        [("spec.containers[0].volumeDevices[0].name", "FieldValueNotFound")],
    ),
    "unsupported terminationMessagePolicy": (
        _container(terminationMessagePolicy="X"),
        # v1.20 calls it invalid; releases since list what is supported.
        [("spec.containers[0].terminationMessagePolicy", UNSUPPORTED)],
    ),
    "several errors in one container": (
        _container(imagePullPolicy="X", ports=[{"containerPort": 0}], livenessProbe={}),
        [
            ("spec.containers[0].ports[0].containerPort", REQUIRED),
            ("spec.containers[0].imagePullPolicy", UNSUPPORTED),
            ("spec.containers[0].livenessProbe", REQUIRED),
        ],
    ),
    "node affinity without terms": (
        _affinity(nodeAffinity={_HARD: {"nodeSelectorTerms": []}}),
        [(f"spec.affinity.nodeAffinity.{_HARD}.nodeSelectorTerms", REQUIRED)],
    ),
    "pod affinity without topologyKey": (
        _affinity(podAntiAffinity={_HARD: [{"topologyKey": ""}]}),
        [
            (f"spec.affinity.podAntiAffinity.{_HARD}[0].topologyKey", REQUIRED),
            (f"spec.affinity.podAntiAffinity.{_HARD}[0].topologyKey", INVALID),
            (f"spec.affinity.podAntiAffinity.{_HARD}[0].topologyKey", INVALID),
        ],
    ),
    "invalid topology spread constraint": (
        {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}]},
        [
            ("spec.topologySpreadConstraints[0].maxSkew", INVALID),
            ("spec.topologySpreadConstraints[0].topologyKey", REQUIRED),
            ("spec.topologySpreadConstraints[0].whenUnsatisfiable", UNSUPPORTED),
        ],
    ),
    "invalid handlers": (
        _container(
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
    "invalid httpGet": (
        _container(
            livenessProbe={"httpGet": {"port": "http", "scheme": "FTP", "httpHeaders": [{"name": "a b", "value": ""}]}}
        ),
        [
            ("spec.containers[0].livenessProbe.httpGet.scheme", UNSUPPORTED),
            ("spec.containers[0].livenessProbe.httpGet.httpHeaders", INVALID),
        ],
    ),
    "sleep longer than the grace period": (
        _container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
        [("spec.containers[0].lifecycle.preStop.sleep", INVALID)],
    ),
    "containers without name": (
        {"containers": [{"image": "i"}, {"image": "i"}], "initContainers": [{"image": "i"}]},
        [
            ("spec.containers[0].name", REQUIRED),
            ("spec.containers[1].name", REQUIRED),
            ("spec.containers[1].name", DUPLICATE),
            ("spec.initContainers[0].name", REQUIRED),
            ("spec.initContainers[0].name", DUPLICATE),
        ],
    ),
    "init containers without name": (
        {"containers": [{"name": "c", "image": "i"}], "initContainers": [{"image": "i"}, {"image": "i"}]},
        [("spec.initContainers[0].name", REQUIRED), ("spec.initContainers[1].name", REQUIRED)],
    ),
    "host port conflict": (
        {
            "containers": [{"name": name, "image": "i", "ports": [_PORT]} for name in "ab"],
            "initContainers": [{"name": name, "image": "i", "ports": [_PORT]} for name in "cd"],
        },
        [("spec.containers[1].ports[0].hostPort", DUPLICATE)],
    ),
    "an image with spaces": (_container(image=" i"), [("spec.containers[0].image", INVALID)]),
    "volume devices of the wrong type, and path conflicts": (
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
    "unsupported fsGroupChangePolicy": (
        {"securityContext": {"fsGroupChangePolicy": "X"}},
        [("spec.securityContext.fsGroupChangePolicy", UNSUPPORTED)],
    ),
    "invalid host alias and search domain": (
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a b"]}], "dnsConfig": {"searches": [".", "_a.b.", "A"]}},
        [("spec.dnsConfig.searches[2]", INVALID), ("spec.hostAliases[0].hostnames[0]", INVALID)],
    ),
    "unsupported matchFields and invalid namespace": (
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
    "nodeName with scheduling gates": (
        {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
        [("spec.nodeName", FORBIDDEN)],
    ),
    "dnsPolicy None without dnsConfig": ({"dnsPolicy": "None"}, [("spec.dnsConfig", REQUIRED)]),
    "invalid nameserver": (
        {"dnsConfig": {"nameservers": ["x"]}},
        [("spec.dnsConfig.nameservers[0]", INVALID)],
    ),
    "invalid readiness gate": (
        {"readinessGates": [{"conditionType": "a b"}]},
        [("spec.readinessGates[0].conditionType", INVALID)],
    ),
    "shareProcessNamespace with hostPID": (
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
        **_container(
            env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
            envFrom=[{"secretRef": {"name": "s"}}],
            lifecycle={"preStop": {"sleep": {"seconds": 1}}},
            resources={"limits": {"a.b/c": "1", "hugepages-2Mi": "2Mi", "cpu": "1"}},
            securityContext={"runAsUser": 0},
        ),
        "affinity": {
            "nodeAffinity": {
                _HARD: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}]},
                # Values of preferred terms are not validated.
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


_TERMINATED = {"terminated": {"exitCode": 1}}


def _state(name: str, state: Object) -> Object:
    return {"name": name, "image": "i", "state": state}


_STATUSES: dict[str, tuple[Object, list[tuple[str, str]]]] = {
    "invalid nominatedNodeName": ({"nominatedNodeName": "Bad Value!"}, [("status.nominatedNodeName", INVALID)]),
    "changed qosClass": ({"qosClass": "Guaranteed"}, [("status.qosClass", INVALID)]),
    "invalid condition type": (
        {"conditions": [{"type": "a b", "status": "True"}, {"type": "Ready", "status": "True"}]},
        [("status.conditions[0].Type", INVALID)],
    ),
    "terminated containers that run again, except for a sidecar": (
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
        "containerStatuses": [_state("c", _TERMINATED)],
        "initContainerStatuses": [_state("i", _TERMINATED), _state("on", _TERMINATED)],
    }
    before = await api.patch(f"{PODS}/p/status", {"status": old_status})
    assert before.status == 200, before.text
    answer = await api.patch(f"{PODS}/p/status", {"status": status})
    assert answer.status == 422, answer.text
    assert [(cause["field"], cause["reason"]) for cause in answer.body["details"]["causes"]] == causes
