"""Validation of pod fields that are newer than v1.20 (kubernetes ``pkg/apis/core/validation/validation.go``, v1.36)."""

# ruff: noqa: E501  # messages are left whole

from typing import Any

from tests.apiserver.api import PODS, Api, Object, all_errors_of, pod
from tests.apiserver.pod_bodies import C0, HARD, SUBDOMAIN, claim, container, context
from tests.tables import cases

WINDOWS = "Forbidden: cannot be set for a windows pod"
PROFILES = 'supported values: "Localhost", "RuntimeDefault", "Unconfined"'


def _init(**fields: Any) -> Object:
    return {**container(), "initContainers": [{"name": "i", "image": "i", **fields}]}


def _mount(**fields: Any) -> Object:
    return {"volumes": [{"name": "v"}], **container(volumeMounts=[{"name": "v", "mountPath": "/v", **fields}])}


def _spread(**fields: Any) -> Object:
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", **fields}
        ]
    }


def _pod_affinity(**fields: Any) -> Object:
    return {"affinity": {"podAffinity": {HARD: [{"topologyKey": "z", **fields}]}}}


def _volume(**fields: Any) -> Object:
    return {"volumes": [{"name": "v", **fields}]}


_IMAGES = "spec.volumes[0].image"
_TEMPLATE = "spec.volumes[0].ephemeral.volumeClaimTemplate"
_ROWS: dict[str, tuple[Object, list[str]]] = {
    # Operating systems and the host
    "empty os name": ({"os": {"name": ""}}, ["spec.os.name: Required value"]),
    "windowsOptions in a linux pod": (
        {
            "os": {"name": "linux"},
            **context(windowsOptions={}),
            **container(securityContext={"windowsOptions": {"runAsUserName": "u"}}),
        },
        [
            "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
            f"{C0}.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
        ],
    ),
    "linux fields in a windows pod": (
        {
            "os": {"name": "windows"},
            "hostPID": True,
            "shareProcessNamespace": False,
            "resources": {"limits": {"cpu": "1"}},
            **context(runAsUser=1, fsGroup=1, seLinuxChangePolicy="Recursive"),
            **container(securityContext={"privileged": False, "capabilities": {"add": ["A"]}}),
        },
        [
            "spec.resources: Forbidden: may not be set for a windows pod",
            f"spec.hostPID: {WINDOWS}",
            f"spec.securityContext.fsGroup: {WINDOWS}",
            f"spec.shareProcessNamespace: {WINDOWS}",
            f"spec.securityContext.runAsUser: {WINDOWS}",
            f"spec.securityContext.seLinuxChangePolicy: {WINDOWS}",
            f"{C0}.securityContext.capabilities: {WINDOWS}",
            f"{C0}.securityContext.privileged: {WINDOWS}",
        ],
    ),
    "host namespaces with hostUsers false": (
        {
            "hostUsers": False,
            "hostNetwork": True,
            "hostIPC": True,
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            **container(volumeDevices=[{"name": "v", "devicePath": "/v"}]),
        },
        [
            "spec.hostNetwork: Forbidden: when `hostUsers` is false",
            "spec.HostIPC: Forbidden: when `hostUsers` is false",
            f"{C0}.volumeDevices: Forbidden: when `hostUsers` is false",
        ],
    ),
    "hostProcess containers without hostNetwork and next to others": (
        {
            "containers": [
                {"name": "a", "image": "i", "securityContext": {"windowsOptions": {"hostProcess": True}}},
                {"name": "b", "image": "i"},
            ]
        },
        [
            'spec: Invalid value: "": If pod contains any hostProcess containers then all containers must be '
            "HostProcess containers",
            "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess "
            "containers",
        ],
    ),
    "hostProcess of pod and container differ": (
        {
            "hostNetwork": True,
            **context(windowsOptions={"hostProcess": False}),
            **container(securityContext={"windowsOptions": {"hostProcess": True}}),
        },
        [
            f"{C0}.securityContext.windowsOptions.hostProcess: Invalid value: true: pod hostProcess value must be "
            "identical if both are specified, was false"
        ],
    ),
    "hostPort differs from containerPort with hostNetwork": (
        {"hostNetwork": True, **container(ports=[{"containerPort": 80, "hostPort": 81}])},
        [
            f"{C0}.ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
        ],
    ),
    # Names
    "hostnameOverride with setHostnameAsFQDN": (
        {"hostnameOverride": "A", "setHostnameAsFQDN": True, "hostNetwork": True},
        [
            "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
            "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
            f'spec.hostnameOverride: Invalid value: "A": {SUBDOMAIN}',
        ],
    ),
    "hostnameOverride too long": (
        {"hostnameOverride": "a" * 65},
        ["spec.hostnameOverride: Too long: may not be more than 64 bytes"],
    ),
    "duplicate scheduling gate": (
        {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
        ['spec.schedulingGates[1]: Duplicate value: "a"'],
    ),
    # Security
    "invalid sysctls": (
        {
            "hostNetwork": True,
            **context(sysctls=[{"value": "1"}, {"name": "A"}, {"name": "net.a"}, {"name": "net.a"}]),
        },
        [
            "spec.securityContext.sysctls[0].name: Required value",
            'spec.securityContext.sysctls[1].name: Invalid value: "A": must have at most 253 characters and match regex '
            "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            "spec.securityContext.sysctls[2].name: Invalid value: \"net.a\": may not be specified when 'hostNetwork' is "
            "true",
            'spec.securityContext.sysctls[3].name: Duplicate value: "net.a"',
            "spec.securityContext.sysctls[3].name: Invalid value: \"net.a\": may not be specified when 'hostNetwork' is "
            "true",
        ],
    ),
    "unsupported policies of the security context": (
        context(supplementalGroupsPolicy="X", seLinuxChangePolicy="X"),
        [
            'spec.securityContext.supplementalGroupsPolicy: Unsupported value: "X": supported values: "Merge", "Strict"',
            'spec.securityContext.seLinuxChangePolicy: Unsupported value: "X": supported values: "MountOption", '
            '"Recursive"',
        ],
    ),
    "invalid seccomp and AppArmor profiles": (
        {
            **context(seccompProfile={"type": "X"}, appArmorProfile={"type": "X"}),
            **container(
                securityContext={
                    "seccompProfile": {"type": "Localhost"},
                    "appArmorProfile": {"type": "Localhost", "localhostProfile": " a"},
                    "procMount": "X",
                }
            ),
        },
        [
            f'{C0}.securityContext.procMount: Unsupported value: "X": supported values: "Default", "Unmasked"',
            f"{C0}.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is "
            "Localhost",
            f'{C0}.securityContext.appArmorProfile.localhostProfile: Invalid value: " a": must not be padded with '
            "whitespace",
            f'spec.securityContext.seccompProfile.type: Unsupported value: "X": {PROFILES}',
            f'spec.securityContext.appArmorProfile.type: Unsupported value: "X": {PROFILES}',
        ],
    ),
    "localhostProfile with another type": (
        context(
            seccompProfile={"type": "RuntimeDefault", "localhostProfile": "a"},
            appArmorProfile={"type": "Unconfined", "localhostProfile": "a"},
        ),
        [
            'spec.securityContext.seccompProfile.localhostProfile: Invalid value: {"Type":"RuntimeDefault",'
            '"LocalhostProfile":"a"}: can only be set when seccomp type is Localhost',
            'spec.securityContext.appArmorProfile.localhostProfile: Invalid value: "a": can only be set when AppArmor '
            "type is Localhost",
        ],
    ),
    "procMount Unmasked with host users": (
        container(securityContext={"procMount": "Unmasked"}),
        [f'{C0}.securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`'],
    ),
    "invalid windowsOptions": (
        context(windowsOptions={"gmsaCredentialSpecName": "A", "gmsaCredentialSpec": "", "runAsUserName": "a\\b\\c"}),
        [
            f'spec.securityContext.windowsOptions.gmsaCredentialSpecName: Invalid value: "A": {SUBDOMAIN}',
            'spec.securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an '
            "empty string",
            'spec.securityContext.windowsOptions.runAsUserName: Invalid value: "a\\\\b\\\\c": runAsUserName cannot '
            "contain more than one backslash",
        ],
    ),
    "invalid characters in runAsUserName": (
        context(windowsOptions={"runAsUserName": "a?\\b*"}),
        [
            'spec.securityContext.windowsOptions.runAsUserName: Invalid value: "a?\\\\b*": runAsUserName\'s Domain '
            "doesn't match the NetBios nor the DNS format",
            'spec.securityContext.windowsOptions.runAsUserName: Invalid value: "a?\\\\b*": runAsUserName\'s User cannot '
            'contain the following characters: "/\\:;|=,+*?<>@[]',
        ],
    ),
    # Containers
    "restart rules without restartPolicy": (
        container(restartPolicyRules=[{"action": "X"}]),
        [
            f"{C0}.restartPolicy: Required value: must specify restartPolicy when restart rules are used",
            f'{C0}.restartPolicyRules[0].action: Unsupported value: "X": supported values: "Restart", '
            '"RestartAllContainers"',
            f"{C0}.restartPolicyRules[0].exitCodes: Required value: must be specified",
        ],
    ),
    "unsupported restartPolicy and operator": (
        container(
            restartPolicy="X",
            restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "X", "values": [1] * 256}}],
        ),
        [
            f'{C0}.restartPolicy: Unsupported value: "X": supported values: "Always", "Never", "OnFailure"',
            f'{C0}.restartPolicyRules[0].exitCodes.operator: Unsupported value: "X": supported values: "In", "NotIn"',
            f"{C0}.restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items",
        ],
    ),
    "too many restart rules": (
        container(
            restartPolicy="Never", restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In"}}] * 21
        ),
        [f"{C0}.restartPolicyRules: Too many: 21: must have at most 20 items"],
    ),
    "invalid resize policies": (
        {
            "restartPolicy": "Never",
            **container(
                resizePolicy=[
                    {"resourceName": "cpu", "restartPolicy": "RestartContainer"},
                    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                    {"resourceName": "x", "restartPolicy": "NotRequired"},
                ]
            ),
        },
        [
            f"{C0}.resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` is "
            "'Never'",
            f'{C0}.resizePolicy[1]: Duplicate value: "cpu"',
            f'{C0}.resizePolicy: Unsupported value: "x": supported values: "cpu", "memory"',
        ],
    ),
    "RestartContainer for an init container": (
        _init(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
        [
            'spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": must not be set to '
            "'RestartContainer' for non-sidecar initContainers"
        ],
    ),
    "recursiveReadOnly without readOnly": (
        _mount(recursiveReadOnly="Enabled", mountPropagation="HostToContainer"),
        [
            f"{C0}.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
            f"{C0}.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not "
            "specified",
        ],
    ),
    "unsupported recursiveReadOnly": (
        _mount(recursiveReadOnly="X", readOnly=True),
        [
            f'{C0}.volumeMounts.recursiveReadOnly: Unsupported value: "X": supported values: "Disabled", "Enabled", '
            '"IfPossible"'
        ],
    ),
    "invalid fileKeyRef": (
        container(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"path": "../x", "key": "a=b"}}}]),
        [
            f'{C0}.env[0].valueFrom.fileKeyRef.key: Invalid value: "a=b": a valid environment variable name must consist '
            "only of printable ASCII characters other than '='",
            f"{C0}.env[0].valueFrom.fileKeyRef.volumeName: Required value",
            f"{C0}.env[0].valueFrom.fileKeyRef.path: Invalid value: \"../x\": must not contain '..'",
            f'{C0}.env[0].valueFrom.fileKeyRef.volumeName: Not found: ""',
        ],
    ),
    "fileKeyRef of a volume other than emptyDir": (
        {
            **_volume(configMap={"name": "m"}),
            **container(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"path": "x", "key": "a", "volumeName": "v"}}}]),
        },
        [
            f'{C0}.env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "v": referenced volume must be of type emptyDir'
        ],
    ),
    "invalid secretKeyRef and configMapRef": (
        container(
            env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "A", "key": "a b"}}}],
            envFrom=[{"prefix": "=", "configMapRef": {"name": "A"}}],
        ),
        [
            f'{C0}.env[0].valueFrom.secretKeyRef.name: Invalid value: "A": {SUBDOMAIN}',
            f'{C0}.env[0].valueFrom.secretKeyRef.key: Invalid value: "a b": a valid config key must consist of '
            "alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for "
            "validation is '[-._a-zA-Z0-9]+')",
            f'{C0}.envFrom[0].prefix: Invalid value: "=": a valid environment variable name must consist only of '
            "printable ASCII characters other than '='",
            f'{C0}.envFrom[0].configMapRef.name: Invalid value: "A": {SUBDOMAIN}',
        ],
    ),
    "invalid grpc port": (
        container(startupProbe={"grpc": {"port": 0}}),
        [f"{C0}.startupProbe.grpc.port: Invalid value: 0: must be between 1 and 65535, inclusive"],
    ),
    # Devices and resources of the pod
    "resource claims without and with two references": (
        {
            "resourceClaims": [
                {"name": "a"},
                {"name": "a", "resourceClaimName": "X", "resourceClaimTemplateName": "t"},
            ]
        },
        [
            'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":'
            "null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            'spec.resourceClaims[1].name: Duplicate value: "a"',
            'spec.resourceClaims[1]: Invalid value: {"Name":"a","ResourceClaimName":"X","ResourceClaimTemplateName":"t"}:'
            " at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            f'spec.resourceClaims[1].resourceClaimName: Invalid value: "X": {SUBDOMAIN}',
        ],
    ),
    "unknown and duplicate claims of a container": (
        {
            **claim(resourceClaimName="x"),
            **container(resources={"claims": [{"name": "a", "request": "r"}, {"name": "a"}, {"name": "b"}]}),
        },
        [
            f'{C0}.resources.claims[1]: Duplicate value: "a"',
            f'{C0}.resources.claims[2]: Not found: "b": must be one of the names in pod.spec.resourceClaims: a',
        ],
    ),
    "claim of a container in a pod without claims": (
        container(resources={"claims": [{"name": "b"}]}),
        [
            f'{C0}.resources.claims[0]: Not found: "b": must be one of the names in pod.spec.resourceClaims which is '
            "empty"
        ],
    ),
    "pod resources below those of its containers": (
        {
            "resources": {"requests": {"cpu": "1", "pods": "1"}, "limits": {"cpu": "2"}},
            **container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}),
        },
        [
            'spec.resources.requests[pods]: Unsupported value: "pods": supported values: "cpu", "hugepages-", "memory"',
            'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container '
            "requests of 2",
            'spec.resources.containers[0][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 2',
        ],
    ),
    "unsupported resource in overhead": (
        {"overhead": {"foo": "1"}},
        [
            'spec.overhead.limits[foo]: Invalid value: "foo": must be a standard resource type or fully qualified',
            'spec.overhead.limits[foo]: Invalid value: "foo": must be a standard resource for containers',
        ],
    ),
    # Where to run
    "unsupported node policies": (
        _spread(nodeAffinityPolicy="X", nodeTaintsPolicy="X"),
        [
            f'spec.topologySpreadConstraints[0].{field}: Unsupported value: "X": supported values: "Honor", "Ignore"'
            for field in ("nodeAffinityPolicy", "nodeTaintsPolicy")
        ],
    ),
    "duplicate topology spread constraints": (
        {"topologySpreadConstraints": [_spread()["topologySpreadConstraints"][0]] * 2},
        ['spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, DoNotSchedule}"'],
    ),
    "matchLabelKeys without labelSelector": (
        {**_spread(matchLabelKeys=["a"]), **_pod_affinity(mismatchLabelKeys=["a"])},
        [
            f"spec.affinity.podAffinity.{HARD}[0].mismatchLabelKeys: Forbidden: must not be specified when labelSelector "
            "is not set",
            "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is "
            "not set",
        ],
    ),
    "matchLabelKeys in selector and mismatchLabelKeys": (
        {
            **_pod_affinity(
                labelSelector={"matchLabels": {"a": "x"}}, matchLabelKeys=["b", "a"], mismatchLabelKeys=["b"]
            ),
            "labels": {"a": "x"},
        },
        [
            f'spec.affinity.podAffinity.{HARD}[0][1]: Invalid value: "a": exists in both matchLabelKeys and '
            "labelSelector",
            f'spec.affinity.podAffinity.{HARD}[0].matchLabelKeys[0]: Invalid value: "b": exists in both matchLabelKeys '
            "and mismatchLabelKeys",
        ],
    ),
    "unsupported toleration operators": (
        {
            "tolerations": [
                {"key": "a", "operator": "Lt", "value": "1"},
                {"key": "a", "operator": "Exists", "value": "v"},
                {"key": "a", "operator": "X"},
            ]
        },
        [
            'spec.tolerations[0].operator: Unsupported value: "Lt": supported values: "Equal", "Exists", "Lt", "Gt"',
            "spec.tolerations[1].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
            'spec.tolerations[2].operator: Unsupported value: "X": supported values: "Equal", "Exists"',
        ],
    ),
    "ambiguous IP addresses": (
        {"hostAliases": [{"ip": "010.0.0.1"}], "dnsConfig": {"nameservers": ["::ffff:1.2.3.4"]}},
        [
            'spec.dnsConfig.nameservers[0]: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address',
            'spec.hostAliases[0].ip: Invalid value: "010.0.0.1": must not have leading 0s',
        ],
    ),
    # Volumes
    "image volume without reference": (_volume(image={}), [f"{_IMAGES}.reference: Required value"]),
    "unsupported pullPolicy of an image volume": (
        _volume(image={"reference": "i", "pullPolicy": "X"}),
        [f'{_IMAGES}.pullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never"'],
    ),
    "invalid volumeClaimTemplate": (
        _volume(ephemeral={"volumeClaimTemplate": {"metadata": {"name": "n", "labels": {"a": "a b"}}, "spec": {}}}),
        [
            f'{_TEMPLATE}.metadata.labels: Invalid value: "a b": a valid label must be an empty string or consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
            "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            f"{_TEMPLATE}.metadata.name: Forbidden: cannot be set",
            f"{_TEMPLATE}.spec.accessModes: Required value: at least 1 access mode is required",
            f"{_TEMPLATE}.spec.resources[storage]: Required value",
        ],
    ),
    "reference to the claim of an ephemeral volume": (
        {
            "volumes": [
                {"name": "o", "persistentVolumeClaim": {"claimName": "p-v"}},
                {
                    "name": "v",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "spec": {
                                "accessModes": ["ReadWriteOnce"],
                                "resources": {"requests": {"storage": "1Gi"}},
                            }
                        }
                    },
                },
            ]
        },
        [
            'spec.volumes[0].persistentVolumeClaim.claimName: Invalid value: "p-v": must not reference a PVC that gets '
            "created for an ephemeral volume"
        ],
    ),
}


@cases("spec, errors", _ROWS)
async def test_rejected_pods(api: Api, spec: Object, errors: list[str]) -> None:
    assert all_errors_of(await api.post(PODS, pod(**spec))) == errors


_ACCEPTED: dict[str, Object] = {
    "windows pod": {"os": {"name": "windows"}, **context(windowsOptions={"runAsUserName": "D\\u"})},
    "hostProcess containers": {"hostNetwork": True, **context(windowsOptions={"hostProcess": True})},
    "hostUsers false": {"hostUsers": False, **container(securityContext={"procMount": "Unmasked"})},
    "hostnameOverride": {"hostnameOverride": "a.b"},
    "profiles": context(
        seccompProfile={"type": "Localhost", "localhostProfile": "a/b"},
        appArmorProfile={"type": "Localhost", "localhostProfile": "a"},
        sysctls=[{"name": "kernel.shm_rmid_forced", "value": "1"}],
    ),
    "policies of containers": {
        **container(
            restartPolicy="Never",
            restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
            resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
        ),
        "initContainers": [
            {
                "name": "i",
                "image": "i",
                "restartPolicy": "Always",
                "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn"}}],
                "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
            }
        ],
    },
    "fileKeyRef": {
        **_volume(emptyDir={}),
        **container(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"path": "x", "key": "a", "volumeName": "v"}}}]),
    },
    "resource claims": {
        **claim(resourceClaimTemplateName="t"),
        **container(resources={"claims": [{"name": "a", "request": "r"}, {"name": "a", "request": "s"}]}),
    },
    "pod-level resources": {
        "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "3", "memory": "2Gi"}},
        **container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}),
        "initContainers": [
            {"name": "a", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            {"name": "b", "image": "i", "resources": {"requests": {"cpu": "2"}}},
        ],
    },
    "image volume": _volume(image={"reference": "i"}),
    "invalid topologyKey": _spread(topologyKey="a b"),
    "recursiveReadOnly": _mount(readOnly=True, recursiveReadOnly="IfPossible"),
}


@cases("spec", _ACCEPTED)
async def test_accepted_pods(api: Api, spec: Object) -> None:
    answer = await api.post(PODS, pod(**spec))
    assert answer.status == 201, answer.text


async def test_match_label_keys_are_merged_into_selectors(api: Api) -> None:
    spec = {
        **_pod_affinity(
            labelSelector={"matchLabels": {"x": "y"}}, matchLabelKeys=["a", "gone"], mismatchLabelKeys=["b"]
        ),
        **_spread(labelSelector={}, matchLabelKeys=["a"]),
    }
    answer = await api.post(PODS, pod(labels={"a": "1", "b": "2"}, **spec))
    assert answer.status == 201, answer.text
    created: Object = answer.body["spec"]
    spec = created
    requirement = {"key": "a", "operator": "In", "values": ["1"]}
    selector = spec["affinity"]["podAffinity"][HARD][0]["labelSelector"]
    assert selector["matchExpressions"] == [requirement, {"key": "b", "operator": "NotIn", "values": ["2"]}]
    assert spec["topologySpreadConstraints"][0]["labelSelector"] == {"matchExpressions": [requirement]}


async def test_disabled_fields_are_dropped(api: Api) -> None:
    """``ContainerStopSignals``, ``ClusterTrustBundleProjection``, ``PodCertificateRequest`` and ``GenericWorkload`` are
    off in v1.36."""
    sources = [
        {"clusterTrustBundle": {"name": "", "path": ".."}, "secret": {"name": "s"}},
        {"podCertificate": {"signerName": "s", "keyType": "X"}},
    ]
    spec = {
        **container(lifecycle={"stopSignal": "SIGNOTHING"}),
        **_volume(projected={"sources": sources}),
        "schedulingGroup": {"podGroupName": "A"},
    }
    answer = await api.post(PODS, pod(**spec))
    assert answer.status == 201, answer.text
    created: Object = answer.body["spec"]
    spec = created
    assert "lifecycle" not in spec["containers"][0]
    assert "schedulingGroup" not in spec
    assert spec["volumes"][0]["projected"]["sources"] == [{"secret": {"name": "s"}}, {}]


async def test_additional_template_errors(api: Api) -> None:
    """Rules for templates only, and rules that admission of pods enforces before validation."""

    path = "spec.template.spec"
    errors = []
    for fields in (
        {"runtimeClassName": "", "activeDeadlineSeconds": 1, "ephemeralContainers": [{"name": "e", "image": "i"}]},
        {"restartPolicy": "Never", **_volume(image={})},
    ):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {**container(), **fields}}
        controller = {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": "r"},
            "spec": {"template": template},
        }
        errors.append(all_errors_of(await api.post("/api/v1/namespaces/default/replicationcontrollers", controller)))
    assert errors == [
        [
            f'{path}.runtimeClassName: Invalid value: "": {SUBDOMAIN}',
            f"{path}.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
            f"{path}.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported",
        ],
        [
            f"{path}.volumes[0].image.reference: Required value",
            f'{path}.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        ],
    ]
