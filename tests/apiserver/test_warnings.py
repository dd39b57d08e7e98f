"""``Warning`` headers equal those of kube-apiserver v1.36.2.

``data/warnings.json`` has creates of every kind with warnings, each with the texts that the real server returned.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, PODS, Answer, Api, Object
from tests.tables import cases

from pilothouse.apiserver.registry.core.pods.volume_warnings import warnings_for_overlapping_virtual_paths
from pilothouse.apiserver.registry.core.pods.warnings import warnings_for_pod

ROWS: list[tuple[str, Object, list[str]]] = json.loads(
    (Path(__file__).parent / "data" / "warnings.json").read_text(encoding="utf-8")
)
APPS = "/apis/apps/v1/namespaces/default/"
CRONJOBS = "/apis/batch/v1/namespaces/default/cronjobs"
CORE = "/api/v1/namespaces/default/"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OS = "beta.kubernetes.io/os"
OS_WARNING = f'spec.template.spec.nodeSelector[{OS}]: deprecated since v1.14; use "kubernetes.io/os" instead'
POD: Object = {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {OS: "linux"}}
TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
WORKLOAD: Object = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
CLAIM: Object = {
    "metadata": {"name": "v"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}},
}
JOB: Object = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
ACCOUNT = "kubernetes.io/enforce-mountable-secrets"
ANNOTATED: Object = {"metadata": {"annotations": {ACCOUNT: "true"}}}
NOT_CANONICAL: Object = {"status": {"loadBalancer": {"ingress": [{"ip": "2001:DB8::1"}]}}}
CANONICAL = (
    'status.loadBalancer.ingress[0]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")'
)


def _definition(*formats: str) -> Object:
    properties = {f"p{position}": {"type": "string", "format": name} for position, name in enumerate(formats)}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    names = {"plural": "ws", "kind": "W"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    return {"spec": {"group": "w.example.com", "scope": "Namespaced", "names": names, "versions": versions}}


def _warnings(answer: Answer) -> list[str]:
    result = re.findall(r'299 - "((?:[^"\\]|\\.)*)"', answer.headers.get("warning", ""))
    return [re.sub(r"\\(.)", r"\1", text) for text in result]


@pytest.mark.parametrize(
    ("path", "body", "warnings"),
    ROWS,
    ids=[f"{position}-{row[0].rpartition('/')[2]}" for position, row in enumerate(ROWS)],
)
async def test_creates_have_upstreams_warnings(api: Api, path: str, body: Object, warnings: list[str]) -> None:
    answer = await api.post(f"{path}?dryRun=All", body)
    assert (answer.status, _warnings(answer)) == (201, warnings), answer.text


UPDATES: dict[str, tuple[str, Object, str, Object, list[str]]] = {
    "pods: none": (PODS, {"spec": POD}, "", {"metadata": {"labels": {"a": "b"}}}, []),
    "labels of a Deployment": (APPS + "deployments", {"spec": WORKLOAD}, "", {"metadata": {"labels": {"a": "b"}}}, []),
    "spec of a Deployment": (APPS + "deployments", {"spec": WORKLOAD}, "", {"spec": {"replicas": 2}}, [OS_WARNING]),
    "spec of a ReplicaSet": (APPS + "replicasets", {"spec": WORKLOAD}, "", {"spec": {"replicas": 2}}, [OS_WARNING]),
    "old template of a ReplicationController": (
        CORE + "replicationcontrollers",
        {"spec": {"template": TEMPLATE}},
        "",
        {"spec": {"template": {"spec": {"nodeSelector": None}}}},
        [OS_WARNING],
    ),
    "claims of a StatefulSet": (
        APPS + "statefulsets",
        {"spec": {**WORKLOAD, "volumeClaimTemplates": [CLAIM]}},
        "",
        {"metadata": {"labels": {"a": "b"}}},
        [
            'spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: fractional byte value "1500m" is invalid, '
            "must be an integer"
        ],
    ),
    "schedule of a CronJob": (
        CRONJOBS,
        {"spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": JOB}}},
        "",
        {"spec": {"suspend": True}},
        [OS_WARNING.replace("spec.template", "spec.jobTemplate.spec.template")],
    ),
    "annotation of a ServiceAccount that is new": (
        CORE + "serviceaccounts",
        {},
        "",
        ANNOTATED,
        [
            f"metadata.annotations[{ACCOUNT}]: deprecated in v1.32+; prefer separate namespaces to isolate access to "
            "mounted secrets"
        ],
    ),
    "annotation of a ServiceAccount that is known": (
        CORE + "serviceaccounts",
        ANNOTATED,
        "",
        {"metadata": {"annotations": {ACCOUNT: "false"}}},
        [],
    ),
    "token requests of a CSIDriver that are known": (
        DRIVERS,
        {"spec": {"tokenRequests": [{"audience": "a"}]}},
        "",
        {"metadata": {"labels": {"a": "b"}}},
        [],
    ),
    "new formats of a CustomResourceDefinition": (
        DEFINITIONS,
        {**_definition("known"), "metadata": {"name": "ws.w.example.com"}},
        "",
        _definition("known", "new"),
        ['unrecognized format "new"'],
    ),
    "status of a Service": (
        CORE + "services",
        {"spec": {"ports": [{"port": 1}], "type": "LoadBalancer"}},
        "/status",
        NOT_CANONICAL,
        [CANONICAL],
    ),
    "status of an Ingress": (
        INGRESSES,
        {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 1}}}}},
        "/status",
        NOT_CANONICAL,
        [CANONICAL],
    ),
    "status of a pod": (
        PODS,
        {"spec": POD},
        "/status",
        {"status": {"podIP": "2001:DB8::1", "podIPs": [{"ip": "2001:DB8::1"}]}},
        [CANONICAL.replace("loadBalancer.ingress[0]", "podIPs[0].ip")],
    ),
}


@cases("path, body, part, patch, warnings", UPDATES)
async def test_updates_have_upstreams_warnings(
    api: Api, path: str, body: Object, part: str, patch: Object, warnings: list[str]
) -> None:
    created = await api.create(path, {"metadata": {"name": "w"}, **body} if "metadata" not in body else _named(body))
    answer = await api.patch(f"{path}/{created['metadata']['name']}{part}", patch)
    assert (answer.status, _warnings(answer)) == (200, warnings), answer.text


def _named(body: Object) -> Object:
    return {**body, "metadata": {"name": "w", **body["metadata"]}}


async def test_failures_keep_the_warnings_from_before(api: Api) -> None:
    """Upstream adds a warning to the response when it finds the reason."""
    unknown = await api.post(CONFIG_MAPS, {"metadata": {"name": "A"}, "x": 1})
    deprecated = await api.get(CORE + "endpoints/none")
    assert (unknown.status, _warnings(unknown)) == (422, ['unknown field "x"'])
    assert (deprecated.status, _warnings(deprecated)) == (
        404,
        ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"],
    )


async def test_unreadable_requests_have_the_warnings_of_their_resource(api: Api) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    answer = await api.request("GET", CORE + "endpoints?includeObject=nope", accept=accept)
    assert (answer.status, len(_warnings(answer))) == (400, 1)


async def test_deprecated_objects_are_read_with_a_warning(api: Api) -> None:
    await api.create(CORE + "endpoints", {"metadata": {"name": "e"}})
    answer = await api.get(CORE + "endpoints/e")
    assert (answer.status, len(_warnings(answer))) == (200, 1)


@cases(
    "annotation, profile",
    {
        "known": ("runtime/default", {"type": "RuntimeDefault"}),
        "a file": ("localhost/foo", {"type": "Localhost", "localhostProfile": "foo"}),
        "none": ("unconfined", {"type": "Unconfined"}),
    },
)
async def test_app_armor_annotations_are_copied_to_the_fields(api: Api, annotation: str, profile: Object) -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/c": annotation}
    answer = await api.post(PODS, {"metadata": {"name": "p", "annotations": annotations}, "spec": POD})
    assert answer.body["spec"]["containers"][0]["securityContext"] == {"appArmorProfile": profile}


def _pod(**container: Any) -> Object:
    return {"metadata": {}, "spec": {"containers": [{"name": "c", **container}]}}


def test_many_ports_without_a_conflict_are_not_compared_with_each_other() -> None:
    ports = [{"containerPort": 1, "protocol": "TCP", "hostPort": n + 1, "hostIP": "1.2.3.4"} for n in range(30_000)]
    assert list(warnings_for_pod(_pod(ports=ports))) == []


def test_many_paths_without_a_conflict_are_not_compared_with_each_other() -> None:
    items = [{"key": str(n), "path": f"d/{n}"} for n in range(30_000)]
    volume = {"name": "v", "configMap": {"name": "m", "items": [*items, {"key": "last", "path": "d/7/"}]}}
    assert list(warnings_for_overlapping_virtual_paths([volume])) == [
        'volume "v" (ConfigMap "m"): overlapping paths: "d/7" with "d/7"'
    ]
