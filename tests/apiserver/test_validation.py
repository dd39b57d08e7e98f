"""Validation of every kind: the causes of a 422 in order and with upstream's repetitions.

``golden/validation.json`` has the causes, for creations as ``KIND: CHANGE``, for updates as ``KIND: CHANGE -> CHANGE``.
They were compared with those of a kube-apiserver v1.20.2 or v1.36.2, or follow the source of v1.36.2
(``pkg/apis/*/validation``). Other tables of the same are beside the kinds, in ``registry``.
"""

import copy
import re
from typing import Any

import pytest
from tests.apiserver import samples
from tests.apiserver.api import Answer, Api, Object
from tests.golden import Golden

from pilothouse.apiserver.options import ServerOptions
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.env import Env

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

BAD_LABELS: Object = {"metadata.labels": {"a b": "c"}}
ADDRESS = {"type": "InternalIP", "address": "a"}
CONDITION = {"type": "Sufficient", "status": "Yes", "reason": "a b", "message": ""}
DEVICE = {"name": "v", "devicePath": "/x"}
DRIVER = {"name": "d.example.com", "nodeID": "n"}
GPU, PAGES = "example.com/gpu", "hugepages-2Mi"
PORT = {"containerPort": 80, "hostPort": 80}
TAINT = {"key": "k", "effect": "NoSchedule"}
ZONES = {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}
ZONE_EXISTS = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}

VALID: dict[str, Object] = {
    "ClusterRoleBinding": {"subjects": [{"kind": "ServiceAccount", "name": "u", "namespace": "d1"}]},
    "LimitRange": {"spec.limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]},
    "NetworkPolicy": {"spec.ingress": [{"ports": [{"port": 80}], "from": [{"podSelector": {}}]}]},
    "MutatingWebhookConfiguration": {"webhooks.0.clientConfig": {"url": "https://127.0.0.1/x"}},
    "ResourceQuota": {"spec.hard": {"pods": "3"}},
    "ValidatingWebhookConfiguration": {"webhooks.0.clientConfig": {"url": "https://127.0.0.1/x"}},
}
"""Where the changes below need other objects than ``samples`` has."""

CREATED: tuple[tuple[str, Object], ...] = (
    ("Deployment", {"spec.selector": None}),
    ("Deployment", {"spec.selector.matchLabels": None}),
    ("Deployment", {"spec.replicas": -1}),
    ("Deployment", {"spec.strategy.type": "Other"}),
    ("Deployment", {"spec.strategy.rollingUpdate.maxUnavailable": "200%"}),
    ("DaemonSet", {"spec.updateStrategy.rollingUpdate.maxUnavailable": 0}),
    (
        "DaemonSet",
        {"spec.updateStrategy.rollingUpdate.maxUnavailable": 1, "spec.updateStrategy.rollingUpdate.maxSurge": 1},
    ),
    ("StatefulSet", {"metadata.name": "a.b"}),
    ("StatefulSet", {"spec.podManagementPolicy": "Other"}),
    ("ReplicaSet", {"spec.template.spec.restartPolicy": "Never"}),
    ("Job", {"spec.parallelism": -1}),
    ("Job", {"spec.completionMode": "Indexed", "spec.parallelism": 1}),
    ("Job", {"spec.template.spec.restartPolicy": "Always"}),
    ("CronJob", {"spec.schedule": "x"}),
    ("CronJob", {"spec.timeZone": "Nowhere"}),
    ("CronJob", {"metadata.name": "a" * 53}),
    ("CronJob", {"spec.concurrencyPolicy": "Other"}),
    ("ControllerRevision", {"data": None}),
    ("ControllerRevision", {"revision": -1}),
    ("PersistentVolume", {"spec.capacity": None}),
    ("PersistentVolume", {"spec.accessModes": None}),
    ("PersistentVolumeClaim", {"spec.accessModes": None}),
    ("PersistentVolumeClaim", {"spec.resources": None}),
    ("PersistentVolumeClaim", {"spec.volumeMode": "Other"}),
    ("HorizontalPodAutoscaler", {"spec.maxReplicas": None}),
    ("HorizontalPodAutoscaler", {"spec.scaleTargetRef.name": None}),
    ("PodDisruptionBudget", {"spec.maxUnavailable": 1}),
    ("Ingress", {"spec.rules": [{"host": "*.a", "http": {"paths": [{"path": "/", "backend": {}}]}}]}),
    ("IngressClass", {"spec.controller": "nonsense"}),
    ("NetworkPolicy", {"spec.ingress": [{"from": [{"ipBlock": {"cidr": "x"}}]}]}),
    ("PriorityClass", {"value": 2000000000}),
    ("PriorityClass", {"metadata.name": "system-node-critical", "value": 7}),
    ("PriorityClass", {"metadata.name": "system-node-critical", "value": 2_000_001_000, "globalDefault": True}),
    ("Secret", {"type": "kubernetes.io/ssh-auth", "stringData": None, "data": {"ssh-privatekey": ""}}),
    ("RuntimeClass", {"handler": None}),
    ("StorageClass", {"provisioner": None}),
    ("StorageClass", {"volumeBindingMode": "Other"}),
    ("StorageClass", {"reclaimPolicy": "Other"}),
    ("Role", {"rules": [{"verbs": ["get"], "resources": ["pods"]}]}),
    ("Role", {"rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
    ("Role", {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]}),
    ("RoleBinding", {"subjects": [{"kind": "Other", "name": "x"}]}),
    ("ClusterRoleBinding", {"subjects": [{"kind": "ServiceAccount", "name": "x"}]}),
    ("Lease", {"spec.leaseDurationSeconds": 0}),
    ("Lease", {"spec.leaseTransitions": -1}),
    ("StatefulSet", {"spec.ordinals.start": -1}),
    ("Job", {"spec.backoffLimit": -1}),
    ("CronJob", {"spec.startingDeadlineSeconds": -1}),
    ("CronJob", {"spec.failedJobsHistoryLimit": -1}),
    ("ConfigMap", {"data": {"a b": "c"}}),
    ("Secret", {"type": "kubernetes.io/tls"}),
    ("LimitRange", {"spec.limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}),
    ("ResourceQuota", {"spec.hard.pods": "-1"}),
    ("ResourceQuota", {"spec.hard": {"count/pods": "-1"}}),
    ("ResourceQuota", {"spec.hard": {"count/pods": "500m"}}),
    ("ResourceQuota", {"spec.hard": {"a.com/gpu": "500m"}}),
    ("ResourceQuota", {"spec.hard.nonsense": "1"}),
    ("EndpointSlice", {"addressType": "Other"}),
    ("Endpoints", {"subsets": [{"addresses": [{"ip": "x"}], "ports": [{"port": 1}]}]}),
    ("Event", {"involvedObject.namespace": "other"}),
    ("VolumeAttachment", {"spec.attacher": None}),
    ("VolumeAttachment", {"spec.nodeName": None}),
    ("ValidatingWebhookConfiguration", {"webhooks": [{"name": "x"}]}),
    ("CertificateSigningRequest", {"spec.usages": None}),
    ("ServiceCIDR", {"spec.cidrs": ["x"]}),
    ("IPAddress", {"metadata.name": "x"}),
    ("Node", {"spec.taints": [{"key": "a", "effect": "x"}]}),
    ("Namespace", {"metadata.name": "a.b"}),
    ("Pod", {"spec.containers": []}),
    ("Pod", {"spec.restartPolicy": "Other"}),
    ("ReplicationController", {"spec.selector.z": "y"}),
    ("PodTemplate", {"template.spec.containers": []}),
    ("CSIStorageCapacity", {"storageClassName": None}),
    ("CSINode", {"spec.drivers": [{"name": "a", "nodeID": ""}]}),
    ("VolumeAttributesClass", {"driverName": None}),
    ("APIService", {"spec.groupPriorityMinimum": 0}),
    ("HorizontalPodAutoscaler", {"spec.scaleTargetRef.name": "a/b"}),
    (
        "HorizontalPodAutoscaler",
        {
            "spec.metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}},
                }
            ]
        },
    ),
    ("HorizontalPodAutoscaler", {"spec.scaleTargetRef.kind": "a%b"}),
    ("ClusterRole", {"aggregationRule.clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "a"}]}]}),
    ("Node", {"spec.podCIDRs": [""]}),
    ("Node", {"spec.taints": [{"key": "a", "value": "a b", "effect": "NoSchedule"}]}),
    ("Endpoints", {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 1, "appProtocol": "a b"}]}]}),
    ("Endpoints", {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 1, "name": "A"}]}]}),
    ("Ingress", {"spec.rules": None, "spec.defaultBackend.service": None, "spec.defaultBackend.resource.kind": "K"}),
    ("PersistentVolume", {"spec.nodeAffinity.required.nodeSelectorTerms": [{"matchFields": [{"key": "a"}]}]}),
    ("PersistentVolume", {"spec.nodeAffinity": {}}),
    (
        "LimitRange",
        {"spec.limits": [{"type": "Container", "default": {"a.b/c": "1"}, "defaultRequest": {"a.b/c": "0"}}]},
    ),
    ("VolumeAttachment", {"spec.attacher": "a" * 64}),
    (
        "ValidatingWebhookConfiguration",
        {"webhooks": [{"name": "a.example.com", "admissionReviewVersions": ["v1", "1"], "sideEffects": "None"}]},
    ),
    ("Deployment", {"spec.template.metadata.annotations": {"": "x"}}),
    ("StorageClass", {"provisioner": "-x"}),
    ("DaemonSet", {"spec.updateStrategy.rollingUpdate.maxUnavailable": "x"}),
    ("Node", {"spec.podCIDR": "x"}),
    ("Node", {"spec.podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}),
    (
        "Job",
        {
            "spec.template.spec.initContainers": [
                {"name": "i", "image": "i", "readinessProbe": {"exec": {"command": ["a"]}}}
            ]
        },
    ),
    ("Job", {"spec.completions": -1}),
    ("Job", {"spec.activeDeadlineSeconds": -1}),
    ("Job", {"spec.ttlSecondsAfterFinished": -1}),
    ("Job", {"spec.template.metadata": {"labels": {"job-name": "other"}}}),
    ("PersistentVolume", {"spec.volumeMode": "Odd"}),
    ("Endpoints", {"subsets.0.addresses.0.ip": "127.0.0.1"}),
    ("Endpoints", {"subsets.0.addresses.0.ip": "169.254.1.1"}),
    ("Endpoints", {"subsets.0.ports.0.protocol": "ODD"}),
    ("Ingress", {"spec.rules.0.host": "A.com"}),
    ("Ingress", {"spec.rules.0.host": "10.0.0.1"}),
    ("Ingress", {"spec.rules.0.http.paths.0.path": "/a//b"}),
    ("Ingress", {"spec.rules.0.http.paths.0.backend.service.port": {"name": "a", "number": 1}}),
    ("Ingress", {"spec.rules.0.http.paths.0.backend.service.port": {"name": "A_"}}),
    ("Ingress", {"spec.rules.0.http.paths.0.backend.resource": {"kind": "K", "name": "n"}}),
    ("Ingress", {"spec.tls": [{"hosts": ["A"]}]}),
    ("NetworkPolicy", {"spec.ingress.0.ports.0.protocol": "ODD"}),
    ("NetworkPolicy", {"spec.ingress.0.ports.0.port": 0}),
    ("NetworkPolicy", {"spec.ingress.0.from.0": {}}),
    ("NetworkPolicy", {"spec.ingress.0.from.0": {"ipBlock": {"cidr": ""}}}),
    ("NetworkPolicy", {"spec.podSelector": {"matchLabels": {"a b": "c"}}}),
    ("PriorityClass", {"preemptionPolicy": "Odd"}),
    ("ClusterRole", {"aggregationRule": {}}),
    ("ClusterRoleBinding", {"subjects.0.apiGroup": "odd"}),
    ("ValidatingWebhookConfiguration", {"webhooks.0.timeoutSeconds": 31}),
    ("ValidatingWebhookConfiguration", {"webhooks.0.clientConfig.url": "http://x"}),
    ("ValidatingWebhookConfiguration", {"webhooks.0.rules.0.apiVersions": ["*", "a"]}),
    ("MutatingWebhookConfiguration", {"webhooks.0.reinvocationPolicy": "Odd"}),
    ("autoscaling/v1 HorizontalPodAutoscaler", {"spec.minReplicas": 0}),
    ("LimitRange", {"spec.limits.0.min.cpu": "3"}),
    ("LimitRange", {"spec.limits.0.default": {"cpu": "3"}}),
    ("LimitRange", {"spec.limits.0.defaultRequest": {"cpu": "3"}}),
    ("LimitRange", {"spec.limits.0": {"type": "Pod", "default": {"cpu": "1"}}}),
    ("LimitRange", {"spec.limits.0": {"type": "PersistentVolumeClaim"}}),
    ("ResourceQuota", {"spec.scopes": ["BestEffort", "NotBestEffort"]}),
    ("DaemonSet", {"spec.template.spec.restartPolicy": "Never"}),
    ("Service", {"spec.ports.0.protocol": "ODD"}),
    ("Secret", {"type": "kubernetes.io/service-account-token"}),
    ("Pod", {"spec.initContainers": [{"name": "c", "image": "x"}]}),
    (
        "Pod",
        {
            "spec.containers": [{"name": "c", "image": "x"}],
            "spec.initContainers": [
                {
                    "name": "c",
                    "image": "x",
                    "ports": [PORT, PORT],
                    "restartPolicyRules": [{"action": "Odd"}],
                    "lifecycle": {"preStop": {}},
                    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
                }
            ],
        },
    ),
    ("Pod", {"spec.containers": [{"name": "c"}], "spec.initContainers": [{"name": "i"}]}),
    (
        "Pod",
        {"spec.volumes": [{"name": "v", "configMap": {"name": "c"}, "secret": {"secretName": "s"}, "emptyDir": {}}]},
    ),
    (
        "Pod",
        {
            "spec.containers": [{"name": "c", "image": "x", "volumeDevices": [DEVICE, DEVICE]}],
            "spec.volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
    ),
    (
        "PersistentVolume",
        {"spec.hostPath": None, "spec.cephfs.monitors": ["a"], "spec.nfs.server": "s", "spec.nfs.path": "/"},
    ),
    (
        "Deployment",
        {
            "spec.selector.matchLabels.app": "a/b",
            "spec.template.metadata.labels.app": "a/b",
            "spec.template.spec.containers": [],
        },
    ),
    ("CSINode", {"spec.drivers": [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["a", "a"]}]}),
    (
        "PersistentVolumeClaim",
        {"spec.storageClassName": "A", "spec.dataSourceRef.kind": "Pod", "spec.dataSourceRef.name": ""},
    ),
    ("events.k8s.io/v1 Event", {"deprecatedCount": 2, "series.count": 1}),
    ("events.k8s.io/v1 Event", {"metadata.generateName": "Bad_"}),
    ("Endpoints", {"subsets": [{"addresses": [{"ip": "10.1.2.3", "hostname": "a b"}]}]}),
    (
        "PersistentVolume",
        {"spec.hostPath": None, "spec.capacity.storage": "-1", "spec.nfs.server": "s", "spec.nfs.path": "/"},
    ),
    ("VolumeAttachment", {"spec.attacher": ""}),
    ("IngressClass", {"spec.controller": "example.com/" + "x" * 250}),
    ("IngressClass", {"spec.controller": "a.b/c", "spec.parameters": {}}),
    ("Pod", {"spec.resources.limits": {"example.com/gpu": "2"}}),
    ("PersistentVolumeClaim", {"spec.accessModes": [], "spec.dataSource.kind": "Odd", "spec.dataSource.name": "x"}),
    ("Node", {"spec.taints": [TAINT, TAINT]}),
    ("RuntimeClass", {"scheduling.tolerations": [{"operator": "Exists", "effect": "Odd"}]}),
    (
        "ValidatingWebhookConfiguration",
        {"webhooks.0.rules.0.apiGroups": [""], "webhooks.0.rules.0.apiVersions": ["v1", ""]},
    ),
    ("StorageClass", {"allowedTopologies": [ZONES, ZONES]}),
    ("StorageClass", {"allowedTopologies": [{}, ZONES]}),
    (
        "StorageClass",
        {
            "allowedTopologies": [
                {"matchLabelExpressions": [{"key": "a", "values": ["x", "x"]}, {"key": "a"}, {"values": ["y"]}]}
            ]
        },
    ),
    ("Service", {"metadata.name": None, "spec.type": "LoadBalancer", "spec.loadBalancerClass": "a b"}),
    (
        "Service",
        {"metadata.name": None, "spec.type": "ExternalName", "spec.clusterIPs": ["None"], "spec.ipFamilies": ["IPv4"]},
    ),
    ("APIService", {"metadata.name": "a", **BAD_LABELS, "spec": {"group": "b.c", "version": "v1"}}),
    ("CustomResourceDefinition", {"metadata.name": "A", **BAD_LABELS, "spec.group": "b.c", "spec.scope": "Cluster"}),
    ("Namespace", {"spec.finalizers": ["a", "a.b/c", "kubernetes"]}),
    ("Secret", {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e3g="}}),
    ("Secret", {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "W10="}}),
    ("Secret", {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": ""}}),
    ("Secret", {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "bnVsbA=="}}),
    ("Secret", {"type": "kubernetes.io/dockercfg", "data": {}}),
    (
        "ResourceQuota",
        {"spec.hard.pods": "1", "spec.hard.persistentvolumeclaims": "1", "spec.scopes": ["VolumeAttributesClass"]},
    ),
    (
        "ResourceQuota",
        {
            "spec.hard": {"requests.storage": "1", "persistentvolumeclaims": "1", "x.y/z": "1"},
            "spec.scopes": ["VolumeAttributesClass"],
        },
    ),
    (
        "ResourceQuota",
        {
            "spec.hard.pods": "1",
            "spec.scopeSelector.matchExpressions": [
                {"scopeName": "BestEffort", "operator": "Exists"},
                {"scopeName": "NotBestEffort", "operator": "Exists"},
            ],
        },
    ),
    ("StatefulSet", {"spec.serviceName": "A"}),
    (
        "StatefulSet",
        {"spec.volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}]},
    ),
    ("StatefulSet", {"spec.updateStrategy.rollingUpdate.maxUnavailable": 0}),
    ("StatefulSet", {"spec.updateStrategy.rollingUpdate.maxUnavailable": "101%"}),
    ("StatefulSet", {"spec.ordinals.start": -1, "spec.persistentVolumeClaimRetentionPolicy.whenScaled": "Keep"}),
    ("Pod", {"spec.tolerations": [{"key": "-x"}]}),
    ("Job", {"spec.selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}),
    ("Job", {"spec.selector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}}),
    ("StatefulSet", {"spec.selector.matchLabels": {"a b": "x"}}),
    ("LimitRange", {"spec.limits": [{"type": "Pod", "min": {"fresh": "1"}}]}),
    (
        "ValidatingWebhookConfiguration",
        {"webhooks.0.clientConfig": {"service": {"namespace": "default", "name": "s", "path": "ü"}}},
    ),
    ("ControllerRevision", {"revision": -1, "data": []}),
    ("ControllerRevision", {"data": "x"}),
    ("CertificateSigningRequest", {"metadata.name": "Jane_" + "x" * 300, "spec": {}}),
    ("Node", {"status.capacity": {"pods": "-1"}}),
    ("Node", {"status.capacity": {"pods": "500m"}}),
    ("Node", {"status.capacity": {GPU: "1500m"}}),
    ("Node", {"status.capacity": {"cpu": "500m"}}),
    ("ResourceQuota", {"spec.scopeSelector.matchExpressions": [{"scopeName": "b", "operator": "Exists"}]}),
    (
        "ResourceQuota",
        {"spec.scopeSelector.matchExpressions": [{"scopeName": "BestEffort", "operator": "In", "values": ["a"]}]},
    ),
    ("ResourceQuota", {"spec.scopeSelector.matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}),
    (
        "ResourceQuota",
        {
            "spec.scopeSelector.matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}
            ]
        },
    ),
    ("ResourceQuota", {"spec.scopeSelector.matchExpressions": [{"scopeName": "PriorityClass", "operator": "Is"}]}),
    (
        "ResourceQuota",
        {"spec.scopeSelector.matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]},
    ),
    ("StatefulSet", {"spec.template.spec.containers.0.volumeMounts": [{"name": "d", "mountPath": "/data"}]}),
    ("StatefulSet", {"spec.template.spec.containers.0.volumeMounts": [{"name": "dat", "mountPath": "/data"}]}),
    ("Service", {"spec.clusterIP": "10.0.0.1"}),
    ("Service", {"spec.clusterIP": "1.2.3.4"}),
    ("Service", {"spec.type": "NodePort", "spec.ports": [{"port": 1, "nodePort": 80}]}),
    ("Service", {"spec.ports": None}),
    ("Pod", {"spec.containers.0.resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}}}),
    ("Pod", {"spec.containers.0.resources": {"requests": {"cpus": "1"}}}),
    ("Pod", {"spec.containers.0.resources": {"limits": {"pods": "1"}}}),
    ("Pod", {"spec.containers.0.resources": {"limits": {"requests.example.com/gpu": "1"}}}),
    ("Pod", {"spec.containers.0.resources": {"requests": {"memory": "2"}, "limits": {"memory": "1"}}}),
    ("Pod", {"spec.containers.0.resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}),
    ("Pod", {"spec.containers.0.resources": {"requests": {GPU: "1"}}}),
    ("Pod", {"spec.containers.0.resources": {"requests": {GPU: "1"}, "limits": {GPU: "2"}}}),
    ("Pod", {"spec.containers.0.resources": {"limits": {GPU: "1500m"}}}),
    ("Pod", {"spec.containers.0.resources": {"limits": {PAGES: "2Mi"}}}),
    ("Pod", {"spec.containers.0.resources": {"limits": {PAGES: "4Mi", "cpu": "1"}}}),
    ("Pod", {"spec.containers.0.resources": {"limits": {PAGES: "3Mi", "cpu": "1"}}}),
    ("Pod", {"spec.containers.0.resources": {"limits": {"cpu": "-1"}}}),
)
"""A kind, and what is wrong with the object: values by their paths, None for a field that is absent."""

UPDATED: tuple[tuple[str, Object, Object], ...] = (
    ("Deployment", {}, {"spec.selector.matchLabels.z": "y"}),
    ("ReplicaSet", {}, {"spec.selector.matchLabels.z": "y"}),
    ("DaemonSet", {}, {"spec.selector.matchLabels.z": "y"}),
    ("StatefulSet", {}, {"spec.serviceName": "other"}),
    ("ControllerRevision", {}, {"data.z": "y"}),
    ("Job", {}, {"spec.completionMode": "Indexed", "spec.completions": 1}),
    ("Job", {}, {"spec.completions": 5}),
    ("Job", {}, {"spec.template.spec.hostNetwork": True}),
    ("Secret", {}, {"type": "other"}),
    ("EndpointSlice", {}, {"addressType": "IPv6"}),
    ("Node", {"spec.providerID": "a"}, {"spec.providerID": "b"}),
    ("PersistentVolume", {}, {"spec.hostPath.path": "/other"}),
    ("PersistentVolume", {}, {"spec.volumeMode": "Block"}),
    ("Job", {}, {"metadata.uid": "another"}),
    ("PersistentVolumeClaim", {}, {"spec.accessModes": ["ReadWriteMany"]}),
    ("IngressClass", {}, {"spec.controller": "example.com/other"}),
    ("PriorityClass", {}, {"value": 7}),
    ("PriorityClass", {}, {"preemptionPolicy": "Never"}),
    ("RuntimeClass", {}, {"handler": "other"}),
    ("StorageClass", {}, {"provisioner": "other"}),
    ("StorageClass", {}, {"parameters.z": "y"}),
    ("StorageClass", {}, {"reclaimPolicy": "Retain"}),
    ("StorageClass", {}, {"volumeBindingMode": "WaitForFirstConsumer"}),
    ("CSIDriver", {}, {"spec.attachRequired": False}),
    ("VolumeAttachment", {}, {"spec.nodeName": "other"}),
    ("VolumeAttributesClass", {}, {"driverName": "other"}),
    ("CSIStorageCapacity", {}, {"storageClassName": "other"}),
    ("RoleBinding", {}, {"roleRef.name": "other"}),
    ("ClusterRoleBinding", {}, {"roleRef.name": "other"}),
    ("ResourceClaim", {}, {"spec.devices.requests": []}),
    ("ServiceCIDR", {}, {"spec.cidrs": ["10.77.0.0/24"]}),
    ("Deployment", {}, {**BAD_LABELS, "spec.replicas": -1, "spec.selector.matchLabels.app": "y"}),
    ("DaemonSet", {}, {**BAD_LABELS, "spec.minReadySeconds": -1, "spec.selector.matchLabels.app": "y"}),
    (
        "StatefulSet",
        {"spec.serviceName": "s"},
        {**BAD_LABELS, "spec.serviceName": "t", "spec.replicas": -1, "spec.template.spec.containers": None},
    ),
    (
        "Service",
        {"spec.type": "LoadBalancer", "spec.loadBalancerClass": "a.b/c"},
        {**BAD_LABELS, "spec.loadBalancerClass": "a b"},
    ),
    ("Service", {}, {**BAD_LABELS, "spec.clusterIP": "10.0.0.77", "spec.ports": []}),
    ("Service", {}, {**BAD_LABELS, "spec.type": "ExternalName", "spec.clusterIP": "None"}),
    ("NetworkPolicy", {}, {**BAD_LABELS, "spec.policyTypes": ["x"]}),
    (
        "Ingress",
        {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
        {**BAD_LABELS, "spec.defaultBackend": None},
    ),
    ("IngressClass", {}, {**BAD_LABELS, "spec.controller": None}),
    ("ServiceCIDR", {}, {**BAD_LABELS, "spec.cidrs": ["10.8.0.0/24", "10.7.0.0/24"]}),
    ("RoleBinding", {}, {**BAD_LABELS, "roleRef.name": "a/b", "subjects": [{"kind": "x"}]}),
    ("RuntimeClass", {}, {**BAD_LABELS, "handler": None}),
    ("StorageClass", {}, {**BAD_LABELS, "provisioner": None, "reclaimPolicy": "x"}),
    ("ConfigMap", {"immutable": True}, {**BAD_LABELS, "data": {"a/": "c"}}),
    ("Node", {}, {**BAD_LABELS, "spec.taints": [{"key": "k", "effect": "x"}]}),
    ("DaemonSet", {}, {"spec.template.spec.containers": []}),
    ("ConfigMap", {}, {**BAD_LABELS, "metadata.finalizers": ["unqualified name"]}),
    ("Lease", {}, {**BAD_LABELS, "metadata.finalizers": ["unqualified name"]}),
    ("Role", {}, {**BAD_LABELS, "metadata.finalizers": ["unqualified name"]}),
    (
        "CSINode",
        {"spec.drivers.0.allocatable": {"count": 3}},
        {"spec.drivers": [{**DRIVER, "allocatable": {"count": 4}}]},
    ),
    ("CSINode", {}, {"spec.drivers": [{**DRIVER, "nodeID": "m"}]}),
    ("PersistentVolumeClaim", {}, {"spec.volumeMode": "Block", "spec.resources.requests.storage": "1Mi"}),
    (
        "Pod",
        {},
        {"metadata.uid": "another", "metadata.ownerReferences": [{"apiVersion": "v1", "name": "o", "uid": "u"}]},
    ),
    ("Pod", {}, {"spec.nodeName": "n"}),
    ("Pod", {}, {"spec.containers": [{"name": "c", "image": "nginx:1.25"}, {"name": "d", "image": "x"}]}),
    ("Pod", {}, {"spec.containers": [{"name": "c"}]}),
    (
        "Node",
        {"spec.podCIDRs": ["10.0.0.0/24", "fd00::/64"]},
        {"spec.podCIDR": "10.0.1.1/24", "spec.podCIDRs": ["10.0.1.1/24", "fd01::/64"]},
    ),
    ("PersistentVolume", {"spec.nodeAffinity.required.nodeSelectorTerms": [ZONE_EXISTS]}, {"spec.nodeAffinity": None}),
    ("VolumeAttachment/status", {}, {"metadata.uid": "u", "metadata.deletionGracePeriodSeconds": 2}),
    ("PersistentVolume/status", {}, {"metadata.uid": "u", "metadata.deletionGracePeriodSeconds": 2}),
    ("ResourceQuota/status", {}, {"status.used": {"fresh": "1"}}),
    ("PodDisruptionBudget/status", {}, {"status.conditions": [CONDITION], "status.expectedPods": -1}),
    ("autoscaling/v1 HorizontalPodAutoscaler/status", {}, {"status.currentReplicas": -1}),
    ("autoscaling/v1 HorizontalPodAutoscaler/status", {}, {"status.desiredReplicas": -1}),
    ("Node/status", {}, {"status.declaredFeatures": ["B", "A", "A", "a/b"]}),
    ("Node/status", {}, {"status.declaredFeatures": ["A", "A/b", "B"]}),
    ("Node/status", {}, {"status.addresses": [ADDRESS, ADDRESS]}),
    ("Node/status", {}, {"status.capacity": {"pods": "-1"}}),
    ("Node/status", {}, {"status.capacity": {"pods": "500m"}}),
    ("Node/status", {}, {"status.capacity": {GPU: "1500m"}}),
    ("Node/status", {}, {"status.capacity": {"cpu": "500m"}}),
)
"""A kind or its status, what its object has, and what a merge patch changes."""


def _info(kind: str) -> ResourceInfo:
    return next(info for info in samples.KINDS if kind in (info.kind, samples.kind_id(info)))


def _set(obj: Object, changes: Object) -> Object:
    """The object with these values at these paths."""
    for path, value in changes.items():
        *way, last = path.split(".")
        node: Any = obj
        for step in way:
            node = node[int(step)] if isinstance(node, list) else node.setdefault(step, {})
        if value is None:
            node.pop(last, None)
        else:
            node[int(last) if isinstance(node, list) else last] = value
    return obj


def _sample(kind: str, changes: Object) -> Object:
    return _set(_set(samples.sample(_info(kind)), copy.deepcopy(VALID.get(kind, {}))), changes)


def _patch(changes: Object) -> Object:
    result: Object = {}
    for path, value in changes.items():
        *way, last = path.split(".")
        node = result
        for step in way:
            node = node.setdefault(step, {})
        node[last] = value
    return result


def causes(answer: Answer) -> list[str]:
    """The causes of a 422, without uids; none if the object was accepted."""
    assert answer.status in (200, 201, 422), answer.text
    result = (answer.body.get("details") or {}).get("causes") or ()
    lines = [f"{cause['reason']} {cause['field']}: {cause['message']}" for cause in result]
    return [_UID.sub("(uid)", line) for line in lines]


async def test_samples_are_valid(api: Api) -> None:
    await samples.make_namespace(api)
    for kind in VALID:
        answer = await api.post(f"{samples.collection(_info(kind))}?dryRun=All", _sample(kind, {}))
        assert answer.status == 201, answer.text


async def _server(env: Env) -> Api:
    api = Api(env, ServerOptions(gates=("MaxUnavailableStatefulSet",)))
    await samples.make_namespace(api)
    return api


async def test_causes_of_creates_and_updates(env: Env, golden: Golden) -> None:
    result = {}
    for kind, changes in CREATED:
        api = await _server(env)
        result[f"{kind}: {changes}"] = causes(await api.post(samples.collection(_info(kind)), _sample(kind, changes)))
    for kind, before, changes in UPDATED:
        api = await _server(env)
        kind_of, slash, status = kind.partition("/status")
        info = _info(kind_of)
        created = await samples.create(api, info, _sample(kind_of, before))
        target = f"{samples.collection(info)}/{created['metadata']['name']}{slash}{status}"
        result[f"{kind}: {before} -> {changes}"] = causes(await api.patch(target, _patch(changes)))
    golden.check("validation", result)


SETS = "/apis/apps/v1/namespaces/d1/statefulsets"


async def test_existing_invalid_fields_can_be_kept(api: Api) -> None:
    await samples.make_namespace(api)
    await api.create(SETS, _sample("StatefulSet", {"spec.serviceName": "s"}))
    await api.rewrite("apps/statefulsets/d1/x", '"serviceName":"s"', '"serviceName":"S"')
    answers = [await api.patch(f"{SETS}/x", {"spec": {"replicas": 3}})]
    await api.rewrite("apps/statefulsets/d1/x", '"ReadWriteOnce"', '"Other"')
    answers += [await api.patch(f"{SETS}/x", {"spec": {"replicas": replicas}}) for replicas in (4, -1)]
    assert [causes(answer) for answer in answers] == [
        [],
        [],
        ["FieldValueInvalid spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    ]


@pytest.mark.parametrize(("gates", "kept"), [((), None), (("MaxUnavailableStatefulSet",), 2)])
async def test_stateful_set_max_unavailable_gate(env: Env, gates: tuple[str, ...], kept: int | None) -> None:
    api = Api(env, ServerOptions(gates=gates))
    await samples.make_namespace(api)
    change = {"spec.updateStrategy.rollingUpdate": {"maxUnavailable": 2}}
    created = await api.post(SETS, _sample("StatefulSet", change))
    for answer in [created, await api.patch(f"{SETS}/x", _patch(change))]:
        assert answer.body["spec"]["updateStrategy"]["rollingUpdate"].get("maxUnavailable") == kept
        assert "f:maxUnavailable" in answer.text, "the manager owns a dropped field, too"


async def test_system_priority_classes_are_valid(api: Api) -> None:
    path, name = "/apis/scheduling.k8s.io/v1/priorityclasses", "system-node-critical"
    await api.delete(f"{path}/{name}")
    assert (await api.post(path, {"metadata": {"name": name}, "value": 2_000_001_000})).status == 201


async def test_service_ips_are_validated_before_the_service(api: Api) -> None:
    services = "/api/v1/namespaces/default/services"
    bodies: list[Object] = [
        {"metadata": {"name": "a/b"}, "spec": {"ports": [{"port": 80}]}},
        {"metadata": {"name": ".."}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.0.0.9"}},
    ]
    allocated, requested = [(await api.post(services, body)).message for body in bodies]
    assert re.fullmatch(
        r'Service "a/b" is invalid: spec.clusterIPs: Invalid value: \[""\]: failed to allocate IP: '
        r'IPAddress.networking.k8s.io "10.0.0.\d+" is invalid: spec.parentRef.name: Invalid value: "a/b": '
        r"may not contain '/'",
        allocated,
    )
    assert requested == (
        'Service ".." is invalid: spec.clusterIPs: Invalid value: ["10.0.0.9"]: failed to allocate IP 10.0.0.9: '
        'IPAddress.networking.k8s.io "10.0.0.9" is invalid: spec.parentRef.name: Invalid value: "..": may not be \'..\''
    )


async def test_sidecar_containers_may_have_probes(api: Api) -> None:
    probe = {"exec": {"command": ["a"]}}
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "readinessProbe": probe, "startupProbe": probe}
    await samples.make_namespace(api)
    answer = await api.post("/api/v1/namespaces/d1/pods", _sample("Pod", {"spec.initContainers": [sidecar]}))
    assert answer.status == 201, answer.text
