"""The printer of Jobs. After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36)."""

from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    containers_of,
    format_selector,
    human_duration,
    nested_field,
    parse_instant,
    template_spec_of,
    wide,
)


def print_job(value: Doc, now: Now) -> Row:
    spec, status = nested_field(value, "spec") or {}, nested_field(value, "status") or {}
    succeeded = status.get("succeeded") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    elif (spec.get("parallelism") or 0) > 1:
        completions = f"{succeeded}/1 of {spec['parallelism']}"
    else:
        completions = f"{succeeded}/1"
    started, completed = parse_instant(status.get("startTime")), parse_instant(status.get("completionTime"))
    duration = "" if started is None else human_duration((completed or now) - started)
    return [
        _job_status(value, status),
        completions,
        duration,
        *containers_of(template_spec_of(value)),
        format_selector(spec.get("selector")),
    ]


def _job_status(value: Doc, status: Doc) -> str:
    true_conditions = [c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"]
    for kind, status_text in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("", "Terminating"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if kind in true_conditions or (not kind and nested_field(value, "metadata", "deletionTimestamp")):
            return status_text
    return "Running"


PRINTER = Printer(
    (NAME, *columns("Status", "Completions", "Duration"), AGE, *wide("Containers", "Images", "Selector")),
    print_job,
)
