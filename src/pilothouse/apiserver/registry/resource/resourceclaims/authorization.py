"""Which users may set which fields of ResourceClaims and ResourceClaimTemplates. The errors are part of the validation.

After kubernetes' ``pkg/registry/resource/utils.go`` (v1.36). ``adminAccess`` requires a label on the namespace. A new
allocation or reservation requires permission for ``resourceclaims/binding``, a changed device status permission for
``resourceclaims/driver`` of the driver, with a verb that names the node (DRAResourceClaimGranularStatusAuthorization).
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, Authorizer
from pilothouse.apiserver.authorization.authorizer import forbidden as access_forbidden
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.field_errors import ErrorList, forbidden
from pilothouse.apiserver.objects import Object, decode
from pilothouse.storage import Record

_GROUP, _RESOURCE = "resource.k8s.io", "resourceclaims"
_ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"
_NO_ADMIN_ACCESS = (
    f"admin access to devices requires the `{_ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
)
_BINDING_FIELDS = ("allocation", "reservedFor")
_NODE_NAME = "authentication.kubernetes.io/node-name"
_SERVICE_ACCOUNT = "system:serviceaccount:"

DeviceKey = tuple[str, str, str, str]


class Server(Protocol):
    """The parts of ``core.Core`` that this module uses."""

    authorizer: Authorizer

    def namespace(self, name: str) -> Record | None: ...


def authorize(server: Server, call: Call, obj: Object, old: Object | None) -> ErrorList:
    """The errors of fields that the user may not set, in a write to a claim or a template."""
    if old is None:
        return _authorized_for_admin(server, call.namespace, _requested_admin_access(obj))
    if call.request_info.subresource != "status":
        return []
    status: Object = obj.get("status") or {}
    old_status: Object = old.get("status") or {}
    errors = _authorized_for_admin(server, call.namespace, _allocated_admin_access(status, old_status))
    errors += _authorized_for_binding(server, call, status, old_status)
    if status.get("allocation") is not None:
        errors += _authorized_for_device_status(server, call, status, old_status)
    return errors


def _authorized_for_admin(server: Server, namespace: str, path: str) -> ErrorList:
    if not path:
        return []
    record = server.namespace(namespace)
    labels = (decode(record.value)["metadata"].get("labels") or {}) if record is not None else {}
    return [] if labels.get(_ADMIN_ACCESS_LABEL) == "true" else [forbidden(path, _NO_ADMIN_ACCESS)]


def _authorized_for_binding(server: Server, call: Call, status: Object, old_status: Object) -> ErrorList:
    if all((status.get(field) or None) == (old_status.get(field) or None) for field in _BINDING_FIELDS):
        return []
    verb = call.request_info.verb
    denial = _denial(server, call.identity, Attributes(verb, _GROUP, "v1", _RESOURCE, "binding"))
    if not denial:
        return []
    requirement = f'requires resource="resourceclaims/binding", verb="{verb}" permission'
    detail = f"changing status.allocation or status.reservedFor {requirement}: {denial}"
    return [forbidden("status.allocation", detail)]


def _authorized_for_device_status(server: Server, call: Call, status: Object, old_status: Object) -> ErrorList:
    drivers = modified_drivers(status.get("devices") or (), old_status.get("devices") or ())
    verbs = [f"arbitrary-node:{call.request_info.verb}"]
    if drivers and is_service_account_of_node(call.identity, allocated_node(status["allocation"])):
        verbs.insert(0, f"associated-node:{call.request_info.verb}")
    errors: ErrorList = []
    for driver in sorted(drivers):
        denial = _first_denial(server, call, verbs, driver)
        if denial:
            requirement = f'requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission'
            errors.append(forbidden("status.devices", f"changing status.devices {requirement}: {denial}"))
    return errors


def _first_denial(server: Server, call: Call, verbs: Sequence[str], driver: str) -> str:
    """Why none of the verbs is allowed for the driver: the reason for the first; "" if one is."""
    denials = []
    for verb in verbs:
        attributes = Attributes(verb, _GROUP, "v1", _RESOURCE, "driver", namespace=call.namespace, name=driver)
        denial = _denial(server, call.identity, attributes)
        if not denial:
            return ""
        denials.append(denial)
    return denials[0]


def _denial(server: Server, identity: Identity, attributes: Attributes) -> str:
    decision = server.authorizer.authorize(identity, attributes)
    if decision.allowed:
        return ""
    reason = ": ".join(part for part in (decision.error, decision.reason) if part)
    return access_forbidden(identity, attributes, reason).message


def _requested_admin_access(obj: Object) -> str:
    """The path of the first request with ``adminAccess``, which upstream reports alike for claims and templates."""
    spec = obj.get("spec") or {}
    spec = spec.get("spec") or spec
    requests = [request.get("exactly") or {} for request in (spec.get("devices") or {}).get("requests") or ()]
    return _first_admin_access(requests, "spec.devices.requests")


def _allocated_admin_access(status: Object, old_status: Object) -> str:
    # An allocation is immutable: what has been granted was authorized.
    if _first_admin_access(_results(old_status), "status"):
        return ""
    return _first_admin_access(_results(status), "status.allocation.devices.results")


def _results(status: Object) -> Sequence[Object]:
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()


def _first_admin_access(items: Sequence[Object], path: str) -> str:
    return next(
        (f"{path}[{position}].adminAccess" for position, item in enumerate(items) if item.get("adminAccess")), ""
    )


def modified_drivers(devices: Iterable[Object], old_devices: Iterable[Object]) -> set[str]:
    """The drivers of device statuses that were added, changed or removed (``getModifiedDrivers``)."""
    old_by_key = {_device_key(device): device for device in old_devices}
    drivers = set[str]()
    for device in devices:
        if old_by_key.pop(_device_key(device), None) != device:
            drivers.add(device.get("driver") or "")
    return drivers | {driver for driver, _pool, _device, _share_id in old_by_key}


def _device_key(device: Object) -> DeviceKey:
    driver, pool, name, share_id = (device.get(field) or "" for field in ("driver", "pool", "device", "shareID"))
    return driver, pool, name, share_id


def allocated_node(allocation: Object) -> str:
    """The node of an allocation that is for one node, selected by its name; otherwise ""."""
    terms: list[Object] = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields: list[Object] = terms[0].get("matchFields") or []
    if len(fields) != 1 or fields[0].get("key") != "metadata.name" or fields[0].get("operator") != "In":
        return ""
    values: list[str] = fields[0].get("values") or []
    return values[0] if len(values) == 1 else ""


def is_service_account_of_node(identity: Identity, node_name: str) -> bool:
    """Whether the user is a service account whose token is bound to a pod on this node
    (``saAssociatedWithAllocatedNode``)."""
    namespace, separator, name = identity.user.removeprefix(_SERVICE_ACCOUNT).partition(":")
    is_account = identity.user.startswith(_SERVICE_ACCOUNT) and bool(namespace and separator and name)
    return bool(node_name) and is_account and identity.extra.get(_NODE_NAME) == (node_name,)
