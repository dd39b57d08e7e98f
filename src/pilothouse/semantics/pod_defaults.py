"""The API server's defaults of pod specs, in pods and in templates.

Used by the API server's strategies; a controller that compares an old template with a new one defaults both first.
Nothing is removed. Follows ``pkg/apis/core/v1/defaults.go`` of v1.36.
"""

from collections.abc import Iterator
from typing import Any

from pilothouse.machinery.quantities import Quantity, canonical, canonicalize, parse_quantity
from pilothouse.semantics.images import tag_of

Object = dict[str, Any]

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_SOURCE_DEFAULTS: dict[str, Object] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_VOLUME_MODES = ("configMap", "secret", "projected", "downwardAPI")


def containers_of(spec: Object) -> Iterator[tuple[str, Object]]:
    """Every container of a pod spec with its path, init containers first."""
    for field in _CONTAINER_LISTS:
        for position, container in enumerate(spec.get(field) or ()):
            yield f"{field}[{position}]", container


def default_template(template: Object) -> None:
    """Fill in a pod template."""
    template.setdefault("metadata", {})
    spec = template.setdefault("spec", {})
    default_pod_spec(spec)


def default_pod_spec(spec: Object) -> None:
    """Set the defaults of a pod spec, as in templates; ``default_pod`` adds those of pods only."""
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    for field in _CONTAINER_LISTS:
        for container in spec.get(field) or ():
            _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def _default_container(container: Object) -> None:
    resources = container.get("resources")
    if not resources:
        container["resources"] = {}
    else:
        canonicalize(resources.get("limits"))
        canonicalize(resources.get("requests"))
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for probe in PROBES:
        if container.get(probe) is not None:
            _default_probe(container[probe])
    for variable in container.get("env") or ():
        if variable.get("valueFrom"):
            _default_field_ref(variable["valueFrom"])
    lifecycle = container.get("lifecycle")
    if lifecycle:
        for hook in lifecycle.values():
            if isinstance(hook, dict):
                _default_http(hook)


def pull_policy(image: str) -> str:
    """``Always`` for the tag ``latest``, explicit or implied; not for an invalid image name."""
    return "Always" if tag_of(image) == "latest" else "IfNotPresent"


def _default_probe(probe: Object) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(field):
            probe[field] = value
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""
    _default_http(probe)


def _default_http(handler: Object) -> None:
    http = handler.get("httpGet")
    if http is not None:
        http["path"] = http.get("path") or "/"
        http["scheme"] = http.get("scheme") or "HTTP"


def _default_volume(volume: Object) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
        return
    for field in _VOLUME_MODES:
        source = volume.get(field)
        if source is not None and source.get("defaultMode") is None:
            source["defaultMode"] = 420
    for source in (volume.get("projected") or {}).get("sources") or ():
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _default_field_ref(item)
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _default_field_ref(item)
    path = volume.get("hostPath")
    if path is not None and path.get("type") is None:
        path["type"] = ""
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        claim.setdefault("metadata", {})
        default_claim_spec(claim.setdefault("spec", {}))
    for field, defaults in _SOURCE_DEFAULTS.items():
        source = volume.get(field)
        if source is not None:
            for name, value in defaults.items():
                if source.get(name) in (None, ""):
                    source[name] = value
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference") or "")


def default_claim_spec(spec: Object) -> None:
    """Set the defaults of the spec of a claim template."""
    if not spec.get("volumeMode"):
        spec["volumeMode"] = "Filesystem"
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field):
            spec[field].setdefault("apiGroup", None)  # printed even when it is not set


def _default_field_ref(item: Object) -> None:
    reference = item.get("fieldRef")
    if reference and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"
    resource = item.get("resourceFieldRef")
    if resource:
        # Go cannot omit a quantity.
        resource["divisor"] = canonical(str(resource.get("divisor") or "0"))


def default_pod(pod: Object) -> None:
    """Defaults of pods that do not apply to templates."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    host_network = spec.get("hostNetwork")
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            limits = container["resources"].get("limits")
            if limits:
                requests = container["resources"].setdefault("requests", {})
                for name, amount in limits.items():
                    requests.setdefault(name, amount)
            if host_network:
                for port in container.get("ports") or ():
                    if not port.get("hostPort") and "containerPort" in port:
                        port["hostPort"] = port["containerPort"]
    whole = spec.get("resources")
    if whole:
        _default_pod_resources(spec, whole)


def _default_pod_resources(spec: Object, whole: Object) -> None:
    """With pod-level resources, defaults of the pod are derived from its containers, and requests from limits
    (``defaultHugePagePodLimits``, ``defaultPodRequests``)."""
    for field in ("limits", "requests"):
        canonicalize(whole.get(field))
    limits, requests = dict(whole.get("limits") or {}), dict(whole.get("requests") or {})
    if not limits and not requests:
        return
    for name, amount in _aggregated(spec, "limits").items():
        if name.startswith(_HUGE_PAGES) and name not in requests:
            limits.setdefault(name, str(amount))
    if not limits:
        return
    for name, amount in _aggregated(spec, "requests").items():
        if name in _OF_PODS:
            requests.setdefault(name, str(amount))
    for name, text in limits.items():
        if name in _OF_PODS or name.startswith(_HUGE_PAGES):
            requests.setdefault(name, text)
    whole["limits"] = limits
    if requests:
        whole["requests"] = requests


_OF_PODS = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"


def _aggregated(spec: Object, field: str) -> dict[str, Quantity]:
    """The amounts of all containers: those that run together, or more where one that initializes needs more."""
    total: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        _add(total, _amounts(container, field))
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, field)
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = sidecars
        else:
            _add(amounts, sidecars)
        _raise(peak, amounts)
    _raise(total, peak)
    return total


def _amounts(container: Object, field: str) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in (container["resources"].get(field) or {}).items()}


def _add(total: dict[str, Quantity], more: dict[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: dict[str, Quantity], floor: dict[str, Quantity]) -> None:
    for name, amount in floor.items():
        if name not in total or total[name] < amount:
            total[name] = amount
