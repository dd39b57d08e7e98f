"""How ``kubectl get`` shows CSIDrivers. After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36)."""

from typing import Any

from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Doc,
    Now,
    Printer,
    age_of,
    columns,
    name_of,
    part,
)


def print_csi_driver(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    audiences = ",".join(r.get("audience", "") for r in spec.get("tokenRequests") or ())
    attach = spec.get("attachRequired")
    return [
        name_of(value),
        True if attach is None else attach,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        audiences or UNSET,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age_of(value, now),
    ]


PRINTER = Printer(
    (
        NAME,
        *columns("AttachRequired", "PodInfoOnMount", "StorageCapacity", type_="boolean"),
        *columns("TokenRequests"),
        *columns("RequiresRepublish", type_="boolean"),
        *columns("Modes"),
        AGE,
    ),
    print_csi_driver,
)
