"""How ``kubectl get`` shows CronJobs. After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36)."""

from typing import Any

from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    Doc,
    Now,
    Printer,
    age,
    age_of,
    columns,
    containers_of,
    format_selector,
    name_of,
    part,
    wide,
)


def print_cron_job(value: Doc, now: Now) -> list[Any]:
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


PRINTER = Printer(
    (
        NAME,
        *columns("Schedule", "Timezone"),
        *columns("Suspend", type_="boolean"),
        *columns("Active", type_="integer"),
        *columns("Last Schedule"),
        AGE,
        *wide("Containers", "Images", "Selector"),
    ),
    print_cron_job,
)
