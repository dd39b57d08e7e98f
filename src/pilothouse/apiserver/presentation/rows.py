"""Table rows of the workload kinds and of nodes, namespaces, events and configuration.

One function per kind: (object, now) to the cells in the order of the kind's columns. Follows kubernetes'
``pkg/printers/internalversion/printers.go`` (v1.36). The less common kinds are in ``more_rows``.
"""

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from pilothouse.apiserver.presentation.human import (
    NONE,
    UNKNOWN,
    age,
    format_labels,
    format_selector,
    human_duration,
    parse_instant,
    selector_text,
    some,
)
from pilothouse.apiserver.presentation.pod_row import pod_cells

Doc = Mapping[str, Any]
Now = datetime.datetime
Cells = Callable[[Doc, Now], list[Any]]


def part(value: Doc | None, *path: str) -> Any:
    """The value at a path, or None."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def name_of(value: Doc) -> str:
    """metadata.name."""
    return str(part(value, "metadata", "name") or "")


def age_of(value: Doc, now: Now) -> str:
    """The cell of the Age column."""
    return age(part(value, "metadata", "creationTimestamp"), now)


def containers_of(pod_spec: Doc | None) -> list[str]:
    """The cells of the Containers and Images columns."""
    containers = part(pod_spec, "containers") or ()
    return [",".join(str(c.get(field, "")) for c in containers) for field in ("name", "image")]


def _template_spec(value: Doc) -> Doc | None:
    found: Doc | None = part(value, "spec", "template", "spec")
    return found


def _status(value: Doc, field: str) -> int:
    return part(value, "status", field) or 0


def _replicas(value: Doc, now: Now) -> list[Any]:
    selector = part(value, "spec", "selector")
    is_label_selector = value.get("kind") != "ReplicationController"
    return [
        name_of(value),
        part(value, "spec", "replicas") or 0,
        _status(value, "replicas"),
        _status(value, "readyReplicas"),
        age_of(value, now),
        *containers_of(_template_spec(value)),
        format_selector(selector) if is_label_selector else format_labels(selector),
    ]


def _deployment(value: Doc, now: Now) -> list[Any]:
    selector = selector_text(part(value, "spec", "selector"))
    return [
        name_of(value),
        f"{_status(value, 'readyReplicas')}/{part(value, 'spec', 'replicas') or 0}",
        _status(value, "updatedReplicas"),
        _status(value, "availableReplicas"),
        age_of(value, now),
        *containers_of(_template_spec(value)),
        "<invalid>" if selector is None else selector,
    ]


def _daemon_set(value: Doc, now: Now) -> list[Any]:
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(value),
        *(_status(value, field) for field in counts),
        format_labels(part(_template_spec(value), "nodeSelector")),
        age_of(value, now),
        *containers_of(_template_spec(value)),
        format_selector(part(value, "spec", "selector")),
    ]


def _stateful_set(value: Doc, now: Now) -> list[Any]:
    ready = f"{_status(value, 'readyReplicas')}/{part(value, 'spec', 'replicas') or 0}"
    return [name_of(value), ready, age_of(value, now), *containers_of(_template_spec(value))]


def _job(value: Doc, now: Now) -> list[Any]:
    spec, status = part(value, "spec") or {}, part(value, "status") or {}
    succeeded = status.get("succeeded") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    elif (spec.get("parallelism") or 0) > 1:
        completions = f"{succeeded}/1 of {spec['parallelism']}"
    else:
        completions = f"{succeeded}/1"
    started, completed = parse_instant(status.get("startTime")), parse_instant(status.get("completionTime"))
    duration = "" if started is None else human_duration((completed or now) - started)
    return [
        name_of(value),
        _job_status(value, status),
        completions,
        duration,
        age_of(value, now),
        *containers_of(_template_spec(value)),
        format_selector(spec.get("selector")),
    ]


def _job_status(value: Doc, status: Doc) -> str:
    true = [c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"]
    for kind, shown in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("", "Terminating"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if kind in true or (not kind and part(value, "metadata", "deletionTimestamp")):
            return shown
    return "Running"


def _cron_job(value: Doc, now: Now) -> list[Any]:
    spec, status = part(value, "spec") or {}, part(value, "status") or {}
    last = status.get("lastScheduleTime")
    suspend = spec.get("suspend")
    return [
        name_of(value),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "<unset>" if suspend is None else "True" if suspend else "False",
        len(status.get("active") or ()),
        age(last, now) if last else NONE,
        age_of(value, now),
        *containers_of(part(spec, "jobTemplate", "spec", "template", "spec")),
        format_selector(part(spec, "jobTemplate", "spec", "selector")),
    ]


def _node(value: Doc, now: Now) -> list[Any]:
    status = part(value, "status") or {}
    info = status.get("nodeInfo") or {}
    ready = [c.get("status") == "True" for c in status.get("conditions") or () if c.get("type") == "Ready"]
    shown = "Unknown" if not ready else "Ready" if ready[0] else "NotReady"
    if part(value, "spec", "unschedulable"):
        shown += ",SchedulingDisabled"
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel = f"{kernel} ({info['architecture']})"
    return [
        name_of(value),
        shown,
        ",".join(_roles(part(value, "metadata", "labels") or {})) or NONE,
        age_of(value, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(labels: Mapping[str, str]) -> list[str]:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return sorted(role for role in roles if role)


def _address(status: Doc, kind: str) -> str:
    for address in status.get("addresses") or ():
        if address.get("type") == kind:
            return str(address.get("address"))
    return NONE


def _namespace(value: Doc, now: Now) -> list[Any]:
    return [name_of(value), part(value, "status", "phase") or "", age_of(value, now)]


def _event(value: Doc, now: Now) -> list[Any]:
    # events.k8s.io/v1 has the same facts under other names: regarding, note, deprecated*.
    first = value.get("firstTimestamp") or value.get("deprecatedFirstTimestamp") or value.get("eventTime")
    last = value.get("lastTimestamp") or value.get("deprecatedLastTimestamp")
    series = value.get("series") or {}
    last = series.get("lastObservedTime") or last or first
    regarding = value.get("involvedObject") or value.get("regarding") or {}
    source = value.get("source") or value.get("deprecatedSource") or {}
    component = source.get("component") or value.get("reportingComponent") or value.get("reportingController") or ""
    host = source.get("host") or value.get("reportingInstance") or ""
    return [
        age(last, now),
        value.get("type", ""),
        value.get("reason", ""),
        f"{regarding.get('kind', '').lower()}/{regarding.get('name', '')}",
        regarding.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (value.get("message") or value.get("note") or "").strip(),
        age(first, now),
        series.get("count") or value.get("count") or value.get("deprecatedCount") or 1,
        name_of(value),
    ]


def _service(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    ips = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    ports = [
        f"{p.get('port')}:{p['nodePort']}/{p.get('protocol', 'TCP')}"
        if p.get("nodePort")
        else f"{p.get('port')}/{p.get('protocol', 'TCP')}"
        for p in spec.get("ports") or ()
    ]
    return [
        name_of(value),
        spec.get("type", ""),
        ips[0] if ips else NONE,
        _external_ip(value, spec),
        ",".join(ports) or NONE,
        age_of(value, now),
        format_labels(spec.get("selector")),
    ]


def _external_ip(value: Doc, spec: Doc) -> str:
    external = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            ingress = part(value, "status", "loadBalancer", "ingress") or ()
            found = sorted({i.get("ip") or i.get("hostname") or "" for i in ingress} - {""}) + external
            return ",".join(found) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def _endpoints(value: Doc, now: Now) -> list[Any]:
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in value.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return [name_of(value), some(found, 3) if value.get("subsets") else NONE, age_of(value, now)]


def _config_map(value: Doc, now: Now) -> list[Any]:
    return [name_of(value), len(value.get("data") or ()) + len(value.get("binaryData") or ()), age_of(value, now)]


def _secret(value: Doc, now: Now) -> list[Any]:
    return [name_of(value), value.get("type", ""), len(value.get("data") or ()), age_of(value, now)]


def name_and_age(value: Doc, now: Now) -> list[Any]:
    """For kinds that show nothing else."""
    return [name_of(value), age_of(value, now)]


def name_and_creation(value: Doc, now: Now) -> list[Any]:
    """For kinds without columns of their own: kubectl prints the date under CREATED AT."""
    return [name_of(value), part(value, "metadata", "creationTimestamp")]


def _lease(value: Doc, now: Now) -> list[Any]:
    return [name_of(value), part(value, "spec", "holderIdentity") or "", age_of(value, now)]


def _scale(value: Doc, now: Now) -> list[Any]:
    return [name_of(value), part(value, "spec", "replicas") or 0, _status(value, "replicas"), age_of(value, now)]


def _controller_revision(value: Doc, now: Now) -> list[Any]:
    controller = NONE
    for owner in part(value, "metadata", "ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower()
            controller = f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return [name_of(value), controller, value.get("revision", 0), age_of(value, now)]


def _pod_template(value: Doc, now: Now) -> list[Any]:
    labels = format_labels(part(value, "template", "metadata", "labels"))
    return [name_of(value), *containers_of(part(value, "template", "spec")), labels]


ROWS: dict[str, Cells] = {
    "v1 Pod": pod_cells,
    "v1 PodTemplate": _pod_template,
    "v1 ReplicationController": _replicas,
    "v1 Node": _node,
    "v1 Namespace": _namespace,
    "v1 Event": _event,
    "events.k8s.io/v1 Event": _event,
    "v1 Service": _service,
    "v1 Endpoints": _endpoints,
    "v1 ConfigMap": _config_map,
    "v1 Secret": _secret,
    "v1 ServiceAccount": name_and_age,
    "v1 LimitRange": name_and_creation,
    "apps/v1 ReplicaSet": _replicas,
    "apps/v1 Deployment": _deployment,
    "apps/v1 DaemonSet": _daemon_set,
    "apps/v1 StatefulSet": _stateful_set,
    "apps/v1 ControllerRevision": _controller_revision,
    "batch/v1 Job": _job,
    "batch/v1 CronJob": _cron_job,
    "coordination.k8s.io/v1 Lease": _lease,
    "autoscaling/v1 Scale": _scale,
    "rbac.authorization.k8s.io/v1 Role": name_and_creation,
    "rbac.authorization.k8s.io/v1 ClusterRole": name_and_creation,
    "storage.k8s.io/v1 CSIStorageCapacity": name_and_creation,
    "apiextensions.k8s.io/v1 CustomResourceDefinition": name_and_creation,
}
