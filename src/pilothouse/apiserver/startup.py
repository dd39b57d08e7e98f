"""Objects that are there before anybody asks for them."""

from pilothouse.apiserver.addresses import first_address
from pilothouse.apiserver.admission.priority import SYSTEM_CLASSES
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object, encode_object
from pilothouse.storage import Staged

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def stage_objects(core: Core) -> Staged | None:
    """Stage what is missing of them; the last write, with whose commit all are visible, or None if none is missing."""
    staged = None
    for name in NAMESPACES:
        staged = _stage(core, "namespaces", "", {"metadata": {"name": name}}) or staged
    service = _stage(
        core,
        "services",
        "default",
        {
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": first_address(core.options.service_range),
                "clusterIPs": [first_address(core.options.service_range)],
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": core.options.secure_port}],
            },
        },
    )
    return service or staged


def stage_priority_classes(core: Core) -> Staged | None:
    """Stage the two classes for what the cluster itself runs, as ``stage_objects``. Upstream makes them when it has
    started (``scheduling/bootstrap-system-priority-classes``); pods may name them before."""
    staged = None
    for name, (value, description) in SYSTEM_CLASSES.items():
        found = {
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        staged = _stage(core, "priorityclasses", "", found, group="scheduling.k8s.io") or staged
    return staged


def _stage(core: Core, resource: str, namespace: str, obj: Object, *, group: str = "") -> Staged | None:
    info = core.table.find(group, "v1", resource)
    assert info is not None, f"{resource} are built in"
    strategy = core.strategy(info)
    meta = obj["metadata"]
    key = info.key(namespace, meta["name"])
    if core.store.staged(key) is not None:
        return None
    meta["uid"] = core.env.uid()
    meta["creationTimestamp"] = core.time.now()
    strategy.default(obj)
    strategy.prepare_create(obj, core.time.now())
    strategy.finish(obj)

    def make(revision: int) -> bytes:
        meta["resourceVersion"] = str(revision)
        return encode_object(info, obj)

    return core.store.stage(key, make, expected=0)
