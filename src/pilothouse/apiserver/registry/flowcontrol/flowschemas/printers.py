"""How ``kubectl get`` shows FlowSchemas. After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36)."""

from pilothouse.apiserver.registry.generic.printers import AGE, NAME, NONE, Doc, Now, Printer, Row, columns, part


def print_flow_schema(value: Doc, now: Now) -> Row:
    spec = part(value, "spec") or {}
    missing = "?"
    for condition in part(value, "status", "conditions") or ():
        if condition.get("type") == "Dangling":
            missing = condition.get("status", "?")
    return [
        part(spec, "priorityLevelConfiguration", "name") or "",
        spec.get("matchingPrecedence", 0),
        part(spec, "distinguisherMethod", "type") or NONE,
        missing,
    ]


PRINTER = Printer(
    (NAME, *columns("PriorityLevel", "MatchingPrecedence", "DistinguisherMethod"), AGE, *columns("MissingPL")),
    print_flow_schema,
)
