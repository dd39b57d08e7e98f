"""Values for fields: from the type of a field, and from what is known about it by name.

``Values`` makes mostly what a server accepts. ``spoiled`` makes what it should not.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from tests.real.fuzz.schemas import SCHEMAS
from tests.real.fuzz.shared_schema import SharedSchema

from pilothouse.api.schema import Definition, Field, Type

Chooser = Callable[[Random], Any]

TIME = "2026-01-02T03:04:05Z"
MICRO_TIME = "2026-01-02T03:04:05.000006Z"
PERHAPS_TWO = 2


def one(*values: Any) -> Chooser:
    # A copy: what becomes of it in one story must not show in another.
    return lambda random: copy.deepcopy(random.choice(values))


def number(low: int, high: int) -> Chooser:
    return lambda random: random.randint(low, high)


def several(*values: Any, least: int = 1) -> Chooser:
    return lambda random: copy.deepcopy(random.sample(values, random.randint(least, min(len(values), 3))))


def mapping(keys: Sequence[str], value: Chooser) -> Chooser:
    return lambda random: {key: value(random) for key in random.sample(list(keys), random.randint(1, 2))}


_path = one("/a", "/a/b", "/data", "/x.y")
_dns = one("a", "b-1", "some-name", "x", "k8s")
_qualified = one("a", "example.com/a", "example.com/b-1", "app", "app.kubernetes.io/name")
_label_value = one("a", "b", "x-1", "", "A_b.c")
_quantity = one("1", "100m", "1500m", "0.5", "1Gi", "1024Mi", "2", "1e3", "10M", 2, "0", "1.5Gi")
_percent = one(0, 1, 2, 5, "10%", "25%", "100%")
_port = one(1, 80, 443, 8080, 65535)
_port_or_name = one(80, 8080, "http", "web-1")
_address = one("10.1.2.3", "192.168.0.1", "2001:db8::1")
_host = one("a.example.com", "example.com", "*.example.com", "b")
_driver = one("d.example.com", "e.example.com")
_labels = mapping(("app", "tier", "example.com/x", "a"), _label_value)
_resources = mapping(("cpu", "memory", "ephemeral-storage", "example.com/gpu"), one("1", "2", "4"))

KNOWN: Mapping[str, Chooser] = {
    "*.matchLabels": _labels,
    "*.labels": _labels,
    "*.nodeSelector": _labels,
    "*.annotations": mapping(("note", "example.com/a", "b"), one("x", "", "a long one, with spaces", "ü")),
    "*.finalizers": several("example.com/hold", "example.com/more"),
    "*.path": _path,
    "*.mountPath": _path,
    "*.devicePath": _path,
    "*.subPath": one("a", "a/b"),
    "*.fsType": one("ext4", "xfs"),
    "*.protocol": one("TCP", "UDP"),
    "*.port": _port,
    "*.hostIP": _address,
    "*.ip": _address,
    "*.podIP": _address,
    "*.mode": number(0, 0o777),
    "*.defaultMode": number(0, 0o777),
    "*.namespace": one("default", "kube-system", "other"),
    "*.accessModes": several("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"),
    "*.volumeMode": one("Filesystem", "Block"),
    "*.terminationMessagePolicy": one("File", "FallbackToLogsOnError"),
    "*.imagePullPolicy": one("Always", "IfNotPresent", "Never"),
    "*.image": one("nginx", "nginx:1.25", "nginx:latest", "r.example/a@sha256:" + "0" * 64),
    "*.failurePolicy": one("Fail", "Ignore"),
    "*.matchPolicy": one("Exact", "Equivalent"),
    "*.uid": one("a-uid", "5b1d2c3e-0000-4000-8000-000000000001"),
    "*.timeoutSeconds": number(1, 30),
    "*.schedulerName": one("default-scheduler", "mine"),
    "*.topologyKeys": several("example.com/zone", "example.com/rack"),
    "*.replicas": number(0, 5),
    "*.parallelism": number(0, 5),
    "*.url": one("https://w.example.com/x"),
    "*.caBundle": one(None),
    "*.nodeName": _dns,
    "*.conditions.type": one("A", "Ready"),
    "LabelSelectorRequirement": one(
        {"key": "a", "operator": "In", "values": ["x", "y"]},
        {"key": "example.com/x", "operator": "NotIn", "values": ["x"]},
        {"key": "app", "operator": "Exists"},
        {"key": "tier", "operator": "DoesNotExist"},
    ),
    "NodeSelectorRequirement": one(
        {"key": "a", "operator": "In", "values": ["x", "y"]},
        {"key": "example.com/x", "operator": "NotIn", "values": ["x"]},
        {"key": "app", "operator": "Exists"},
        {"key": "cores", "operator": "Gt", "values": ["4"]},
    ),
    "NodeSelectorTerm": one(
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        {},
    ),
    "Toleration": one(
        {"key": "a", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
        {"key": "a", "operator": "Exists"},
        {"operator": "Exists"},
        {"key": "b", "value": "y", "effect": "NoExecute", "tolerationSeconds": 30},
        {"key": "b", "effect": "PreferNoSchedule"},
    ),
    "Taint": one(
        {"key": "a", "value": "x", "effect": "NoSchedule"},
        {"key": "example.com/b", "effect": "NoExecute", "timeAdded": TIME},
        {"key": "c", "effect": "PreferNoSchedule"},
    ),
    "Volume": one(
        {"name": "v", "emptyDir": {}},
        {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "w", "configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}},
        {"name": "w", "secret": {"secretName": "s", "optional": True}},
        {"name": "x", "hostPath": {"path": "/tmp", "type": "Directory"}},
        {"name": "x", "hostPath": {"path": "/tmp"}},
        {"name": "y", "persistentVolumeClaim": {"claimName": "p", "readOnly": True}},
        {"name": "z", "nfs": {"server": "s", "path": "/p"}},
        {"name": "z", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "q", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}]}},
        {"name": "q", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "r", "csi": {"driver": "d.example.com", "volumeAttributes": {"a": "b"}}},
        {"name": "r", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:x", "lun": 1}},
        {"name": "r", "rbd": {"monitors": ["m"], "image": "i"}},
        {"name": "r", "azureDisk": {"diskName": "d", "diskURI": "https://d.example.com/x"}},
        {"name": "r", "fc": {"targetWWNs": ["a"], "lun": 2}},
        {"name": "r", "gcePersistentDisk": {"pdName": "d", "partition": 1}},
        {"name": "r", "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "x"}, "volumeName": "v"}},
    ),
    "VolumeMount": one(
        {"name": "v", "mountPath": "/v"},
        {"name": "w", "mountPath": "/w", "readOnly": True},
        {"name": "v", "mountPath": "/u", "subPath": "a"},
    ),
    "VolumeDevice": one({"name": "v", "devicePath": "/dev/x"}),
    "EnvVar": one(
        {"name": "A", "value": "x"},
        {"name": "B", "value": ""},
        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        {"name": "F", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "A", "value": "$(B)"},
    ),
    "EnvFromSource": one(
        {"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s", "optional": False}, "prefix": "P_"}
    ),
    "Probe": one(
        {"httpGet": {"path": "/h", "port": 80}},
        {"httpGet": {"port": "http", "scheme": "HTTPS", "httpHeaders": [{"name": "A", "value": "b"}]}},
        {"tcpSocket": {"port": 80}, "periodSeconds": 3, "failureThreshold": 2},
        {"exec": {"command": ["a"]}, "initialDelaySeconds": 5, "timeoutSeconds": 2},
    ),
    "LifecycleHandler": one(
        {"exec": {"command": ["a", "b"]}}, {"httpGet": {"port": 80}}, {"tcpSocket": {"port": "http"}}
    ),
    "Container": one(
        {"name": "extra", "image": "nginx:1.25"},
        {"name": "extra", "image": "b", "command": ["a"], "args": ["b", "c"]},
        {"name": "other", "image": "c", "ports": [{"containerPort": 81}]},
    ),
    "Container.ports": one(
        [{"containerPort": 80}],
        [{"containerPort": 80, "name": "http"}, {"containerPort": 53, "protocol": "UDP"}],
        [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP", "name": "u"}],
        [{"containerPort": 8080, "hostPort": 8080, "hostIP": "10.1.2.3"}],
    ),
    "Container.stdin": one(True, False),
    "ResourceRequirements": one(
        {"requests": {"cpu": "100m"}, "limits": {"cpu": "0.5", "memory": "1024Mi"}},
        {"limits": {"cpu": "1000m"}},
        {"requests": {"memory": "1Gi", "cpu": 1}},
        {"limits": {"example.com/gpu": "2"}},
        {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1", "memory": "1Gi"}},
        {},
    ),
    "VolumeResourceRequirements": one(
        {"requests": {"storage": "1Gi"}}, {"requests": {"storage": "2048Mi"}, "limits": {"storage": "4Gi"}}
    ),
    "PodSpec.restartPolicy": one("Always", "OnFailure", "Never"),
    "PodSpec.dnsPolicy": one("ClusterFirst", "Default", "ClusterFirstWithHostNet"),
    "PodSpec.priorityClassName": one("system-node-critical", "system-cluster-critical"),
    "PodSpec.priority": one(0),
    "PodSpec.preemptionPolicy": one("PreemptLowerPriority"),
    "PodSpec.runtimeClassName": one("none-such"),
    "PodSpec.activeDeadlineSeconds": number(1, 1000),
    "PodSpec.terminationGracePeriodSeconds": number(0, 60),
    "PodSpec.overhead": one(None),
    "PodSpec.ephemeralContainers": one([]),
    "PodSpec.hostname": _dns,
    "PodSpec.subdomain": _dns,
    "PodSpec.readinessGates": one([{"conditionType": "example.com/ready"}]),
    "PodSpec.hostAliases": one([{"ip": "1.2.3.4", "hostnames": ["a", "b.example.com"]}]),
    "PodSpec.imagePullSecrets": one([{"name": "a"}], [{"name": "a"}, {"name": "b"}], [{}]),
    "PodSpec.topologySpreadConstraints": one(
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        [
            {
                "maxSkew": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ],
    ),
    "PodSpec.affinity": one(
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
        {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}, "namespaces": ["x"]}
                ]
            }
        },
        {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 10, "podAffinityTerm": {"topologyKey": "zone"}}
                ]
            }
        },
        {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                ]
            }
        },
    ),
    "PodSpec.dnsConfig": one(
        {"nameservers": ["1.2.3.4"], "searches": ["a.example.com"], "options": [{"name": "ndots", "value": "2"}]}
    ),
    "PodSecurityContext": one(
        {"runAsUser": 1000, "runAsNonRoot": True, "fsGroup": 1},
        {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}], "fsGroupChangePolicy": "OnRootMismatch"},
        {"supplementalGroups": [1, 2], "seLinuxOptions": {"level": "s0:c1,c2"}},
        {"seccompProfile": {"type": "RuntimeDefault"}},
        {},
    ),
    "SecurityContext": one(
        {"privileged": True},
        {"capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "readOnlyRootFilesystem": True},
        {"runAsUser": 0, "allowPrivilegeEscalation": False, "procMount": "Default"},
        {"seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"}},
    ),
    "DeploymentStrategy": one(
        {"type": "Recreate"},
        {"type": "RollingUpdate"},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}},
        {"rollingUpdate": {"maxSurge": "30%"}},
    ),
    "DaemonSetUpdateStrategy": one(
        {"type": "OnDelete"}, {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "30%"}}
    ),
    "StatefulSetUpdateStrategy": one(
        {"type": "OnDelete"}, {"type": "RollingUpdate"}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    ),
    "RollingUpdateDeployment.maxSurge": one(1, 2, "30%"),
    "RollingUpdateDeployment.maxUnavailable": one(1, 2, "30%"),
    "RollingUpdateDaemonSet.maxUnavailable": one(1, 2, "30%"),
    "StatefulSetSpec.podManagementPolicy": one("OrderedReady", "Parallel"),
    "StatefulSetSpec.serviceName": _dns,
    "DeploymentSpec.progressDeadlineSeconds": number(100, 1000),
    "DeploymentSpec.minReadySeconds": number(0, 99),
    "JobSpec.manualSelector": one(False),
    "JobSpec.completions": number(1, 5),
    "JobCondition": one({"type": "Suspended", "status": "True"}, {"type": "Other", "status": "False", "reason": "R"}),
    "JobStatus.completionTime": one(None),
    "JobStatus.startTime": one(None, TIME),
    "Condition": one(
        {"type": "A", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": TIME},
        {"type": "B", "status": "Unknown", "reason": "S", "message": "", "lastTransitionTime": TIME},
    ),
    "*Condition.status": one("True", "False", "Unknown"),
    "*Condition.type": one("A", "Ready", "Available"),
    "*Condition.reason": one("Because", "Why"),
    "ServiceSpec.type": one("ClusterIP", "NodePort", "LoadBalancer"),
    "ServiceSpec.clusterIP": one("None"),
    "ServiceSpec.clusterIPs": one(["None"]),
    "ServiceSpec.ports": one(
        [{"port": 80}],
        [{"port": 80, "name": "http", "targetPort": "web"}, {"port": 53, "name": "dns", "protocol": "UDP"}],
        [{"port": 443, "targetPort": 8443, "appProtocol": "https"}],
    ),
    "ServiceSpec.externalIPs": one(["1.2.3.4"], ["1.2.3.4", "2.3.4.5"]),
    "ServiceSpec.externalName": _dns,
    "ServiceSpec.externalTrafficPolicy": one("Cluster", "Local"),
    "ServiceSpec.healthCheckNodePort": one(0),
    "ServiceSpec.loadBalancerIP": one("1.2.3.4"),
    "ServiceSpec.loadBalancerSourceRanges": one(["10.0.0.0/8"]),
    "ServiceSpec.sessionAffinity": one("None", "ClientIP"),
    "ServiceSpec.sessionAffinityConfig": one({"clientIP": {"timeoutSeconds": 100}}),
    "ServiceSpec.selector": _labels,
    "ServicePort.nodePort": one(0),
    "ServicePort.name": one("http", "dns", "x"),
    "ServicePort.targetPort": _port_or_name,
    "ServicePort.appProtocol": one("http", "example.com/x"),
    "LoadBalancerIngress": one({"ip": "1.2.3.4"}, {"hostname": "lb.example.com"}),
    "PersistentVolumeSpec.capacity": one({"storage": "1Gi"}, {"storage": "2048Mi"}),
    "PersistentVolumeSpec.persistentVolumeReclaimPolicy": one("Retain", "Delete"),
    "PersistentVolumeSpec.claimRef": one({"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c"}),
    "PersistentVolumeSpec.mountOptions": one(["ro"], ["ro", "soft"]),
    "PersistentVolumeSpec.nodeAffinity": one(
        {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}
    ),
    "PersistentVolumeClaimSpec.dataSource": one(
        {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
        {"kind": "PersistentVolumeClaim", "name": "c"},
    ),
    "PersistentVolumeStatus.phase": one("Available", "Bound", "Released"),
    "PersistentVolumeClaimStatus.phase": one("Pending", "Bound", "Lost"),
    "PersistentVolumeClaimStatus.capacity": one({"storage": "1Gi"}),
    "PersistentVolumeClaimCondition.type": one("Resizing", "FileSystemResizePending"),
    "PodStatus.phase": one("Pending", "Running", "Succeeded"),
    "PodStatus.qosClass": one("BestEffort", "Burstable"),
    "PodStatus.podIPs": one([{"ip": "10.1.2.3"}]),
    "PodStatus.hostIP": one("10.0.0.9"),
    "PodStatus.nominatedNodeName": _dns,
    "PodStatus.ephemeralContainerStatuses": one([]),
    "ContainerStatus": one(
        {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0},
        {
            "name": "c",
            "image": "i",
            "imageID": "x",
            "ready": False,
            "restartCount": 1,
            "state": {"waiting": {"reason": "R"}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": TIME}},
        },
    ),
    "NodeSpec.podCIDR": one("10.1.0.0/24"),
    "NodeSpec.podCIDRs": one(["10.1.0.0/24"]),
    "NodeSpec.providerID": one("example://x"),
    "NodeSpec.configSource": one(None),
    "NodeStatus.config": one(None),
    "NodeStatus.addresses": one([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "h"}]),
    "NodeStatus.phase": one("Running"),
    "NodeStatus.capacity": _resources,
    "NodeStatus.allocatable": _resources,
    "NodeCondition.type": one("Ready", "MemoryPressure", "example.com/x"),
    "NamespaceStatus.phase": one("Active"),
    "NamespaceSpec.finalizers": several("kubernetes", "example.com/f"),
    "ConfigMap.data": mapping(("a", "b.c", "d_e"), one("x", "", "line\nline")),
    "ConfigMap.binaryData": mapping(("x", "y.z"), one("AAEC", "aGk=")),
    "Secret.data": mapping(("a", "b.c", "d_e"), one("AAEC", "aGk=", "")),
    "Secret.stringData": mapping(("a", "k"), one("x", "y")),
    "Secret.type": one("Opaque", "example.com/t"),
    "EndpointSubset": one(
        {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]},
        {
            "addresses": [{"ip": "10.1.2.4", "hostname": "h", "nodeName": "n"}, {"ip": "10.1.2.3"}],
            "ports": [{"port": 80, "name": "a"}, {"port": 53, "name": "b", "protocol": "UDP"}],
        },
        {"notReadyAddresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80, "appProtocol": "http"}]},
    ),
    "ServiceAccount.secrets": one([{"name": "a"}], [{"name": "b"}, {"name": "a"}]),
    "LimitRangeItem": one(
        {"type": "Container", "max": {"cpu": "4"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
        {"type": "Pod", "min": {"memory": "1Mi"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}},
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "3"}},
        {"type": "example.com/Thing", "max": {"cpu": "1"}},
    ),
    "ResourceQuotaSpec.hard": mapping(
        ("pods", "requests.cpu", "limits.memory", "count/foos.example.com", "services.nodeports", "cpu"), one("1", "5")
    ),
    "ResourceQuotaSpec.scopes": several("NotTerminating", "BestEffort"),
    "ResourceQuotaSpec.scopeSelector": one(
        {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]},
        {"matchExpressions": [{"scopeName": "Terminating", "operator": "Exists"}]},
    ),
    "ResourceQuotaStatus.hard": one({"pods": "2", "requests.cpu": "1500m"}),
    "ResourceQuotaStatus.used": one({"pods": "1", "requests.cpu": "500m"}),
    "IngressRule": one(
        {"host": "a.example.com"},
        {
            "http": {
                "paths": [
                    {
                        "path": "/x",
                        "pathType": "Prefix",
                        "backend": {"service": {"name": "s", "port": {"name": "http"}}},
                    }
                ]
            }
        },
        {
            "host": "*.example.com",
            "http": {
                "paths": [
                    {
                        "pathType": "ImplementationSpecific",
                        "backend": {"resource": {"kind": "K", "name": "n", "apiGroup": "example.com"}},
                    }
                ]
            },
        },
    ),
    "IngressBackend": one(
        {"service": {"name": "s", "port": {"number": 80}}}, {"service": {"name": "s", "port": {"name": "x"}}}
    ),
    "IngressTLS": one({"hosts": ["a.example.com"], "secretName": "s"}, {"hosts": ["b.example.com"]}, {}),
    "IngressSpec.ingressClassName": _dns,
    "IngressClassSpec.controller": one("example.com/c"),
    "NetworkPolicyPeer": one(
        {"podSelector": {}},
        {"namespaceSelector": {"matchLabels": {"a": "x"}}, "podSelector": {"matchLabels": {"b": "y"}}},
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    ),
    "NetworkPolicyPort": one({"port": 80}, {"port": "http", "protocol": "UDP"}, {"protocol": "SCTP"}, {}),
    "NetworkPolicySpec.policyTypes": several("Ingress", "Egress"),
    "PriorityClass.globalDefault": one(False),
    "PriorityClass.preemptionPolicy": one("Never", "PreemptLowerPriority"),
    "PriorityClass.value": number(-100, 1000),
    "StorageClass.reclaimPolicy": one("Retain", "Delete"),
    "StorageClass.volumeBindingMode": one("Immediate", "WaitForFirstConsumer"),
    "StorageClass.provisioner": one("example.com/p", "kubernetes.io/x"),
    "StorageClass.mountOptions": one(["ro"], ["a", "b"]),
    "StorageClass.parameters": one({"a": "b"}, {"x": "y", "z": ""}),
    "TopologySelectorTerm": one({"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}),
    "CSIDriverSpec.fsGroupPolicy": one("File", "None", "ReadWriteOnceWithFSType"),
    "CSIDriverSpec.volumeLifecycleModes": several("Persistent", "Ephemeral"),
    "CSIDriverSpec.tokenRequests": one([{"audience": "a"}], [{"audience": "", "expirationSeconds": 600}]),
    "CSINodeDriver": one(
        {"name": "d.example.com", "nodeID": "n", "topologyKeys": ["example.com/zone"]},
        {"name": "e.example.com", "nodeID": "m", "allocatable": {"count": 3}, "topologyKeys": ["example.com/rack"]},
    ),
    "VolumeAttachmentSpec.attacher": _driver,
    "VolumeAttachmentSource": one({"persistentVolumeName": "p"}),
    "PolicyRule": one(
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a"], "verbs": ["*"]},
    ),
    "AggregationRule": one({"clusterRoleSelectors": [{"matchLabels": {"fuzz.example.com/none": "such"}}]}),
    "Subject": one(
        {"kind": "User", "name": "u"},
        {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "default"},
    ),
    "RoleRef.kind": one("Role", "ClusterRole"),
    "RoleRef.apiGroup": one("rbac.authorization.k8s.io"),
    "RuleWithOperations": one(
        {"operations": ["CREATE"], "apiGroups": ["fuzz.example.com"], "apiVersions": ["v1"], "resources": ["bars"]},
        {
            "operations": ["*"],
            "apiGroups": ["fuzz.example.com"],
            "apiVersions": ["*"],
            "resources": ["bars/*"],
            "scope": "Cluster",
        },
    ),
    "*Webhook.sideEffects": one("None", "NoneOnDryRun"),
    "*Webhook.admissionReviewVersions": one(["v1"], ["v1", "v1beta1"]),
    "*Webhook.reinvocationPolicy": one("Never", "IfNeeded"),
    "*Webhook.name": one("b.example.com", "c.example.com"),
    "*Webhook.clientConfig": one(
        {"url": "https://w.example.com/x"}, {"service": {"name": "s", "namespace": "default", "path": "/p"}}
    ),
    "CrossVersionObjectReference": one({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}),
    "HorizontalPodAutoscalerStatus.currentCPUUtilizationPercentage": number(1, 90),
    "HorizontalPodAutoscalerSpec.minReplicas": number(1, 3),
    "HorizontalPodAutoscalerSpec.maxReplicas": number(3, 9),
    "HorizontalPodAutoscalerSpec.targetCPUUtilizationPercentage": number(1, 90),
    "CertificateSigningRequestSpec.usages": several("client auth", "digital signature", "key encipherment"),
    "CertificateSigningRequestSpec.signerName": one("example.com/s"),
    "CertificateSigningRequestStatus.certificate": one(None),
    "CertificateSigningRequestCondition": one({"type": "Failed", "status": "True", "reason": "R"}),
    "LeaseSpec.leaseDurationSeconds": number(1, 60),
    "LeaseSpec.holderIdentity": one("a", "me"),
    "RuntimeClass.handler": _dns,
    "Scheduling": one({"nodeSelector": {"a": "b"}}, {"tolerations": [{"key": "a", "operator": "Exists"}]}),
    "Overhead": one({"podFixed": {"cpu": "100m", "memory": "1Gi"}}),
    "EventSource": one({"component": "c", "host": "h"}),
    "Event.type": one("Normal", "Warning"),
    "ObjectReference.fieldPath": one("spec.containers{a}"),
    "Event.eventTime": one(None),
    "Event.series": one(None),
    "OwnerReference": one(
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "u-2", "controller": True},
        {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u-3", "blockOwnerDeletion": False},
    ),
    "CustomResourceDefinitionSpec.scope": one("Namespaced", "Cluster"),
    "CustomResourceDefinitionSpec.preserveUnknownFields": one(False),
    "CustomResourceDefinitionNames.shortNames": one(["fz"], ["fz", "fy"]),
    "CustomResourceDefinitionNames.categories": one(["all"], ["fuzz"]),
    "CustomResourceDefinitionVersion.name": one("v1", "v2", "v1beta1"),
    "CustomResourceDefinitionVersion": one(
        {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
        {"name": "v1alpha1", "served": False, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
        {"name": "v3", "served": True, "storage": True},
    ),
    "CustomResourceColumnDefinition": one(
        {"name": "A", "type": "string", "jsonPath": ".spec.a"},
        {"name": "B", "type": "integer", "jsonPath": ".spec.b", "priority": 1, "format": "int32"},
        {"name": "C", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "C", "type": "text", "jsonPath": ".spec.a"},
        {"name": "D", "type": "string", "jsonPath": "spec.a[", "format": "int32"},
    ),
    "CustomResourceSubresources": one(
        {"status": {}},
        {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.size",
                "statusReplicasPath": ".status.size",
                "labelSelectorPath": ".status.selector",
            },
        },
        {"scale": {"specReplicasPath": ".status.a", "statusReplicasPath": ".spec.b", "labelSelectorPath": "x"}},
    ),
    "CustomResourceConversion": one(
        {"strategy": "None"},
        {"strategy": "Other"},
        {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
    ),
    "JSONSchemaProps": one(*SCHEMAS),
    "JSONSchemaProps.properties": mapping(("spec", "status", "a", "metadata", "b-c"), one(*SCHEMAS)),
    "JSONSchemaProps.items": one(*SCHEMAS),
    "JSONSchemaProps.additionalProperties": one(*SCHEMAS, True, False),
    "JSONSchemaProps.type": one("object", "string", "integer", "array", "number", "boolean"),
    "JSONSchemaProps.format": one("int32", "date-time", "uuid", "email", "none-such"),
    "JSONSchemaProps.enum": one(["a", "b"], [1, 2], []),
    "JSONSchemaProps.default": one("a", 1, {"a": 1}, ["x"], True),
    "JSONSchemaProps.required": one(["a"], ["spec"], []),
    "JSONSchemaProps.pattern": one("^[a-z]+$", "a(", ""),
    "JSONSchemaProps.x-kubernetes-list-type": one("atomic", "set", "map"),
    "JSONSchemaProps.x-kubernetes-list-map-keys": one(["a"], ["name"]),
    "JSONSchemaProps.x-kubernetes-map-type": one("atomic", "granular"),
    "CustomResourceDefinitionStatus.storedVersions": one(["v1"], ["v1", "v2"], []),
    "ReplicationControllerSpec.selector": _labels,
    "Preconditions": one({}),
}
"""By ``Type.field``, ``*.field`` or ``Type``. None leaves the field out."""


class Values:
    """Makes values for one request."""

    def __init__(self, random: Random, shared: SharedSchema) -> None:
        self.random = random
        self.shared = shared

    def field(self, owner: Definition, field: Field, depth: int = 0) -> Any:
        """A value that the field takes, most likely; None for no value."""
        chooser = _chooser(owner, field.name)
        if chooser is not None:
            return chooser(self.random)
        return self.value(field.type, depth)

    def value(self, kind: Type, depth: int = 0) -> Any:
        """A value of this type."""
        random = self.random
        match kind.name:
            case "object":
                return self.object(kind.definition, depth + 1)
            case "list":
                assert kind.element is not None
                return [self.value(kind.element, depth + 1) for _ in range(random.randint(1, PERHAPS_TWO))]
            case "map":
                assert kind.element is not None
                keys = random.sample(["a", "b", "example.com/c"], random.randint(1, PERHAPS_TWO))
                return {key: self.value(kind.element, depth + 1) for key in keys}
            case "bool":
                return random.random() < 0.5
            case "int32" | "int64":
                return random.choice((0, 1, 2, 3, 10))
            case "number":
                return random.choice((1, 1.5))
            case "quantity":
                return _quantity(random)
            case "int-or-string":
                return _percent(random)
            case "time":
                return TIME
            case "micro-time":
                return MICRO_TIME
            case "bytes":
                return random.choice(("AAEC", "aGk="))
            case "any":
                return random.choice(({"a": 1}, {"x": {"y": "z"}}))
            case _:
                return random.choice(("a", "b", "x-1", "some-name"))

    def object(self, definition: Definition, depth: int = 0) -> Any:
        """An object with its required fields and a few others."""
        whole = KNOWN.get(definition.go_name)
        if whole is not None:
            return whole(self.random)
        made = {}
        optional = []
        for name, field in self.shared.fields(definition).items():
            if field.required:
                made[name] = self.field(definition, field, depth)
            else:
                optional.append(field)
        count = min(len(optional), self.random.randint(0 if made else 1, PERHAPS_TWO)) if depth < 5 else 0
        for field in self.random.sample(optional, count):
            made[field.name] = self.field(definition, field, depth)
        return {name: value for name, value in made.items() if value is not None}

    def spoiled(self, kind: Type) -> Any:
        """A value that is wrong for the type, or of the right type and rarely allowed."""
        random = self.random
        match kind.name:
            case "object":
                return random.choice(([], "x", 1, {"unknownField": 1}, True))
            case "list":
                return random.choice(({}, "x", 1, [None], ["x"], [{}]))
            case "map":
                return random.choice(([], "x", {"a": 1}, {"": "x"}, {"Bad Key!": "x"}, {"a": ["x"]}))
            case "bool":
                return random.choice(("true", 1, {}, []))
            case "int32" | "int64":
                return random.choice((-1, "1", 1.5, 2**31, 2**63, True, {}, [], -(2**40)))
            case "quantity":
                return random.choice(("x", "1 Gi", -1, "-1", "1e", "", True, {}, "1.5.2", "0.0001"))
            case "int-or-string":
                return random.choice((-1, "x", "150%", "-5%", 1.5, {}, "", True))
            case "time" | "micro-time":
                return random.choice(("yesterday", 1, "2026-01-02", {}, ""))
            case "bytes":
                return random.choice(("not base64!", 1, {}, "a"))
            case "any":
                return random.choice(("x", 1, []))
            case _:
                return random.choice((1, True, {}, [], "", "Bad Value!", "-x", "a" * 300, "UPPER", "x y", "ü", "a/b"))


def _chooser(owner: Definition, name: str) -> Chooser | None:
    go_name = owner.go_name
    found = KNOWN.get(f"{go_name}.{name}")
    if found is None:
        for suffix in ("Condition", "Webhook"):
            if go_name.endswith(suffix):
                found = KNOWN.get(f"*{suffix}.{name}")
                if found is not None:
                    return found
        found = KNOWN.get(f"*.{name}")
        if found is not None and name in ("port", "path") and go_name not in _PLAIN_PORTS:
            return None if name == "port" else found
    return found


_PLAIN_PORTS = frozenset({"ServicePort", "EndpointPort", "ServiceReference", "KeyToPath", "HTTPIngressPath"})
