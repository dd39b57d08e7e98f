"""How ``kubectl get`` shows CSIDrivers. After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36)."""

from pilothouse.apiserver.registry.generic.printers import AGE, NAME, NONE, UNSET, Doc, Now, Printer, Row, columns, part


def print_csi_driver(value: Doc, now: Now) -> Row:
    spec = part(value, "spec") or {}
    audiences = ",".join(r.get("audience", "") for r in spec.get("tokenRequests") or ())
    attach = spec.get("attachRequired")
    return [
        True if attach is None else attach,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        audiences or UNSET,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
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
