"""How ``kubectl get`` shows PodGroups. After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36)."""

from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns, part


def print_pod_group(value: Doc, now: Now) -> Row:
    conditions = {each.get("type"): each for each in part(value, "status", "conditions") or ()}
    scheduled, disrupted = conditions.get("PodGroupScheduled"), conditions.get("DisruptionTarget")
    said = "Pending"
    if scheduled is not None:
        said = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    if disrupted is not None:
        said = disrupted.get("reason") or ""
    return [
        "Basic" if part(value, "spec", "schedulingPolicy", "gang") is None else "Gang",
        part(value, "spec", "podGroupTemplateRef", "workload", "workloadName") or "<none>",
        said,
    ]


PRINTER = Printer(
    (NAME, *columns("Policy", "Workload", "Status"), AGE),
    print_pod_group,
)
