"""Objects that are there before anybody asks for them."""

from pilothouse.apiserver.addresses import first_address
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


def _stage(core: Core, resource: str, namespace: str, obj: Object) -> Staged | None:
    info = core.table.find("", "v1", resource)
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
