"""``/configz``: the settings as upstream tells them, a ``KubeControllerManagerConfiguration``.

Since v1.36 the versioned form (``kubecontrollermanager.config.k8s.io/v1alpha1``). It has what exists here: the generic
part, and a section for each controller that is part of this release.
"""

from typing import Any

import msgspec

from pilothouse.controllermanager.options import PROTOBUF, Options
from pilothouse.machinery.durations import format_duration

GROUP = "kubecontrollermanager.config.k8s.io"

# Section, and upstream's name for each field of the controller's options struct.
_SECTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "garbage-collector-controller": (
        "GarbageCollectorController",
        {"concurrent_syncs": "ConcurrentGCSyncs", "enabled": "EnableGarbageCollector"},
    ),
    "namespace-controller": (
        "NamespaceController",
        {"concurrent_syncs": "ConcurrentNamespaceSyncs", "sync_period": "NamespaceSyncPeriod"},
    ),
    "replicaset-controller": ("ReplicaSetController", {"workers": "ConcurrentRSSyncs"}),
}


def configuration(options: Options) -> dict[str, Any]:
    """The document under the group's name."""
    election = options.leader_election
    generic = {
        "Port": options.serving.port,
        "Address": options.serving.bind_address,
        "MinResyncPeriod": format_duration(options.min_resync_period),
        "ClientConnection": {
            "kubeconfig": options.kubeconfig,
            "acceptContentTypes": "",
            "contentType": PROTOBUF,
            "qps": options.qps,
            "burst": options.burst,
        },
        "ControllerStartInterval": format_duration(options.start_interval),
        "LeaderElection": {
            "leaderElect": election.enabled,
            "leaseDuration": format_duration(election.lease_duration),
            "renewDeadline": format_duration(election.renew_deadline),
            "retryPeriod": format_duration(election.retry_period),
            "resourceLock": "leases",
            "resourceName": election.resource_name,
            "resourceNamespace": election.resource_namespace,
        },
        "Controllers": list(options.controllers),
        "ControllerShutdownTimeout": format_duration(options.shutdown_timeout),
    }
    document: dict[str, Any] = {
        "kind": "KubeControllerManagerConfiguration",
        "apiVersion": f"{GROUP}/v1alpha1",
        "Generic": generic,
    }
    for name, (section, fields) in _SECTIONS.items():
        chosen = options.controller_options.get(name)
        if chosen is not None:
            document[section] = {upstream: _shown(field, getattr(chosen, field)) for field, upstream in fields.items()}
    return document


def page(options: Options) -> bytes:
    """The body of ``/configz``."""
    return msgspec.json.encode({GROUP: configuration(options)})


def _shown(field: str, value: object) -> object:
    return format_duration(value) if field.endswith("_period") and isinstance(value, int | float) else value
