"""The printer of CronJobs. After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36)."""

from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    Doc,
    Now,
    Printer,
    Row,
    age,
    columns,
    containers_of,
    format_selector,
    nested_field,
    wide,
)


def print_cron_job(value: Doc, now: Now) -> Row:
    spec, status = nested_field(value, "spec") or {}, nested_field(value, "status") or {}
    last_schedule_time = status.get("lastScheduleTime")
    suspend = spec.get("suspend")
    return [
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "<unset>" if suspend is None else "True" if suspend else "False",
        len(status.get("active") or ()),
        age(last_schedule_time, now) if last_schedule_time else NONE,
        *containers_of(nested_field(spec, "jobTemplate", "spec", "template", "spec")),
        format_selector(nested_field(spec, "jobTemplate", "spec", "selector")),
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
