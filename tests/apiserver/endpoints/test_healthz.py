"""The checks of ``/healthz``, ``/livez`` and ``/readyz``."""

from tests.tables import cases

from pilothouse.apiserver.endpoints.healthz import Health

HOOKS = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
]
"""Recorded from v1.36.2."""


@cases(
    "endpoint, expected",
    {
        "healthz": ("healthz", ["ping", "log", "loopback-serving-certificate", "etcd", *HOOKS]),
        "livez": ("livez", ["ping", "log", "loopback-serving-certificate", "etcd", *HOOKS]),
        "readyz": ("readyz", ["ping", "log", "etcd", "etcd-readiness", "informer-sync", *HOOKS, "shutdown"]),
    },
)
def test_names_and_order_of_checks(endpoint: str, expected: list[str]) -> None:
    response = Health().handle(f"/{endpoint}", {"verbose": ["1"]})
    assert response is not None
    *lines, last, _empty = response.body.decode().split("\n")
    assert lines == [f"[+]{name} ok" for name in expected]
    assert last == f"{endpoint} check passed"


def test_bootstrap_objects_that_are_missing_fail_their_hooks() -> None:
    response = Health(started=lambda: False).handle("/livez", {})
    assert response is not None
    failed = [line for line in response.body.decode().split("\n") if line.startswith("[-]")]
    names = (
        "rbac/bootstrap-roles",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
        "bootstrap-controller",
    )
    assert failed == [f"[-]poststarthook/{name} failed: reason withheld" for name in names]
