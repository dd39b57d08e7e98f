"""Bootstrap objects: namespaces, Services, endpoints, roles, flow schemas.

``stage_objects`` stages the objects that requests may need, when the server is constructed; ``stage_optional_objects``
the rest, when it runs; ``stage_roles`` those of RBAC. Each stages one batch for one commit. Existing objects are not
changed, apart from roles, whose missing rules are restored.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache

import msgspec

from pilothouse.apiserver.authorization.authorizer import RBAC_GROUP
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects, reconciled
from pilothouse.apiserver.controllers import post_start_hooks
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object, encode_object, stage_object
from pilothouse.apiserver.origins import own_writes
from pilothouse.apiserver.registry.core.services.allocation import DEFAULT_SERVICE_CIDR
from pilothouse.apiserver.registry.core.services.allocators import family_of, first_address, ranges_of
from pilothouse.apiserver.registry.flowcontrol import bootstrap
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.storage import Staged, resource_prefix
from pilothouse.storage.unreadable import is_readable

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_NETWORKING = "networking.k8s.io"


def stage_objects(core: Core) -> Staged | None:
    """Stage the missing objects. Returns the last write, whose commit makes all of them visible, or None if none is
    missing."""
    staged = None
    for name in NAMESPACES:
        staged = stage_missing(core, "", "namespaces", {"metadata": {"name": name}}) or staged
    address = first_address(core.options.service_range)
    service = stage_missing(
        core,
        "",
        "services",
        {
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": address,
                "clusterIPs": [address],
                "ipFamilies": [family_of(address)],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": core.options.secure_port}],
            },
        },
    )
    return service or staged


def stage_optional_objects(core: Core) -> Staged | None:
    """Stage objects that no request depends on: classes, flow control, APIServices, the ServiceCIDR. As
    ``stage_objects``."""
    now = core.time.now()
    staged = _stage_own_range(core)
    staged = stage_missing(core, *post_start_hooks.token_tracking(now[:10])) or staged
    return _stage_templates(core, _optional_templates(core)) or staged


def recreate_deleted_objects(core: Core) -> None:
    """From now on, recreate the initial namespaces, the Service ``kubernetes`` and the ServiceCIDR of the server's own
    range when they are deleted (kubernetes' ``pkg/controlplane/controller/{systemnamespaces,
    kubernetesservice,defaultservicecidr}``, v1.36). They are recreated with the deletion; upstream checks every few
    seconds, and another Service may have the address by then."""
    namespaces = {core.table.built_in("", "namespaces").key("", name) for name in NAMESPACES}
    service = core.table.built_in("", "services").key("default", "kubernetes")
    stage_on_deletion(core, {*namespaces, service}, lambda: stage_objects(core))
    stage_on_deletion(core, {DEFAULT_SERVICE_CIDR}, lambda: _stage_own_range(core))


def stage_on_deletion(core: Core, keys: Collection[str], stage: Callable[[], object]) -> None:
    """From now on, call ``stage`` when one of these keys is deleted."""

    def follow(staged: Staged) -> None:
        if staged.record is None and staged.change.key in keys:
            stage()

    for prefix in dict.fromkeys(map(resource_prefix, sorted(keys))):
        core.store.follow_staged(prefix, follow)


def _stage_own_range(core: Core) -> Staged | None:
    cidr = {
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [str(network) for network in ranges_of(core.options.service_range)]},
        "status": {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "lastTransitionTime": core.time.now(),
                    "reason": "",
                    "message": "Kubernetes default Service CIDR is ready",
                }
            ]
        },
    }
    return stage_missing(core, _NETWORKING, "servicecidrs", cidr)


def stage_endpoints(core: Core, addresses: Sequence[str], port: int) -> Staged | None:
    """Stage the endpoints of the Service ``kubernetes``: this server, and others of the cluster."""
    endpoints = {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [
            {
                "addresses": [{"ip": address} for address in addresses],
                "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            },
        ],
    }
    staged = stage_current(core, "", "endpoints", endpoints)
    return stage_endpoint_slice(core, addresses, port) or staged


def stage_endpoint_slice(core: Core, addresses: Sequence[str], port: int) -> Staged | None:
    """Stage the EndpointSlice that mirrors the Endpoints; None if it is up to date."""
    slice_ = {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv6" if ":" in addresses[0] else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    return stage_current(core, "discovery.k8s.io", "endpointslices", slice_)


def recreate_deleted_endpoints(core: Core, address: str, port: int) -> None:
    """From now on, recreate the endpoints when they are deleted (``pkg/controlplane/reconcilers``, v1.36)."""
    kinds = (("", "endpoints"), ("discovery.k8s.io", "endpointslices"))
    keys = {core.table.built_in(group, resource).key("default", "kubernetes") for group, resource in kinds}
    stage_on_deletion(core, keys, lambda: stage_endpoints(core, [address], port))


def stage_roles(core: Core) -> Staged | None:
    """Stage the missing roles and bindings, and the missing rules and subjects of existing ones."""
    templates = _role_templates(core)
    present = {key for key, _text in templates if core.store.staged(key) is not None}
    staged = _stage_templates(core, templates)
    if not present:
        return staged
    for resource, desired in bootstrap_objects(core.options.gates):
        info = core.table.built_in(RBAC_GROUP, resource)
        meta = desired["metadata"]
        record = core.store.staged(info.key(meta.get("namespace", ""), meta["name"]))
        if record is None or record.key not in present or not is_readable(record.value):
            continue
        changed = reconciled(msgspec.json.decode(record.value), desired)
        if changed is not None:
            core.managed_fields.update_on_server_update(info, record.value, changed)
            staged = _write(core, info, changed, expected=record.revision)
    return staged


def stage_current(core: Core, group: str, resource: str, desired: Object) -> Staged | None:
    """Stage an object whose content, apart from its metadata, must be exactly this; None if it is."""
    info = core.table.built_in(group, resource)
    meta = desired["metadata"]
    record = core.store.staged(info.key(meta.get("namespace", ""), meta["name"]))
    if record is None:
        return stage_missing(core, group, resource, desired)
    stored: Object = msgspec.json.decode(record.value)
    changed = {**stored, **{field: value for field, value in desired.items() if field != "metadata"}}
    if changed == stored:
        return None
    core.managed_fields.update_on_server_update(info, record.value, changed)
    return _write(core, info, changed, expected=record.revision)


def stage_missing(core: Core, group: str, resource: str, obj: Object) -> Staged | None:
    """Stage an object that the server itself creates; None if an object of that name exists."""
    info = core.table.built_in(group, resource)
    meta = obj["metadata"]
    if core.store.staged(info.key(meta.get("namespace", ""), meta["name"])) is not None:
        return None
    _complete(core, info, obj, core.env.uid(), core.time.now())
    return _write(core, info, obj, expected=0)


def _complete(core: Core, info: ResourceInfo, obj: Object, uid: str, now: str) -> None:
    """Complete an object of the server's own as a create would."""
    strategy, meta = core.strategy(info), obj["metadata"]
    meta["uid"] = uid
    meta["creationTimestamp"] = now
    if strategy.generation_fields and strategy.generation_on_create:
        meta["generation"] = 1
    strategy.set_defaults(obj)
    core.managed_fields.update_on_server_create(info, obj)
    strategy.prepare_for_create(obj, now)
    strategy.canonicalize(obj)


# Objects that are the same in every server ---------------------------------------------------------------------------

_UID, _TIME, _REVISION = "@uid@", "@time@", "@revision@"

_REASON = "the API server maintains this object: it is created at startup, and restored when it is deleted or changed"

_Template = tuple[str, bytes]
"""A key, and the stored object with placeholders for what differs between servers. A test session starts hundreds of
servers, each with the same two hundred objects."""


@cache
def _cached_templates(kind: str) -> list[_Template]:
    return []


def _role_templates(core: Core) -> list[_Template]:
    gates = core.options.gates
    templates = _cached_templates(f"roles with {' '.join(gates)}")
    if not templates:
        templates += _templates(core, ((RBAC_GROUP, resource, obj) for resource, obj in bootstrap_objects(gates)))
    return templates


def _optional_templates(core: Core) -> list[_Template]:
    templates = _cached_templates("presented")
    if not templates:
        entries = (
            *post_start_hooks.priority_classes(),
            *bootstrap.flow_control_objects(_TIME),
            *post_start_hooks.api_services(_TIME),
        )
        templates += _templates(core, entries)
    return templates


def _templates(core: Core, entries: Iterable[post_start_hooks.Entry]) -> list[_Template]:
    templates = []
    for group, resource, obj in entries:
        info, meta = core.table.built_in(group, resource), obj["metadata"]
        _complete(core, info, obj, _UID, _TIME)
        meta["resourceVersion"] = _REVISION
        templates.append((info.key(meta.get("namespace", ""), meta["name"]), encode_object(info, obj)))
    return templates


def _stage_templates(core: Core, templates: Iterable[_Template]) -> Staged | None:
    """Stage the missing ones."""
    staged: Staged | None = None
    now = core.time.now().encode()
    for key, text in templates:
        if core.store.staged(key) is not None:
            continue
        completed = text.replace(_UID.encode(), core.env.uid().encode()).replace(_TIME.encode(), now)

        def encode(revision: int, completed: bytes = completed) -> bytes:
            return completed.replace(_REVISION.encode(), b"%d" % revision, 1)

        with own_writes(core.env, key.rpartition("/")[2], _REASON):
            staged = core.store.stage(key, encode, expected=0)
    return staged


def _write(core: Core, info: ResourceInfo, obj: Object, *, expected: int) -> Staged:
    meta = obj["metadata"]
    key = info.key(meta.get("namespace", ""), meta["name"])
    with own_writes(core.env, meta["name"], _REASON):
        return stage_object(core.store, info, key, obj, expected=expected)
