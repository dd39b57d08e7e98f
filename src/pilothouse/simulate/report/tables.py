"""The tables of a report. Pure."""

from collections.abc import Sequence

from pilothouse.simulate.recording import Percentiles, Recording, Workload
from pilothouse.simulate.report.axis import Axis
from pilothouse.simulate.report.marks import NAMES, numbered
from pilothouse.simulate.report.markup import Markup, element, short
from pilothouse.simulate.report.rows import shown_events
from pilothouse.simulate.report.texts import count_text, number_text, seconds_text
from pilothouse.simulate.report.workloads import revision_text, workload_title
from pilothouse.simulate.result import BudgetResult, ExpectationResult

MAX_WORKLOADS = 200
MAX_WRITERS = 40
MAX_CLIENTS = 40
MAX_EVENTS = 80
MAX_MARKS = 300
MAX_ROLLOUTS = 100
_TEXT = 300
"""Maximum length of a cell."""
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[Markup | str]], *, texts: int = 1, more: str = ""
) -> Markup:
    """A table whose first ``texts`` columns are text, the others numbers. ``more`` is a note about omitted rows."""
    if not rows:
        return Markup("")
    head = element("tr", *(element("th", text, scope="col", class_=_class(n, texts)) for n, text in enumerate(heads)))
    body = [
        element(
            "tr",
            *(
                element("th", _cell(cell), scope="row")
                if number == 0
                else element("td", _cell(cell), class_=_class(number, texts))
                for number, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    markup = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    scrolled = element("div", markup, class_="scroll", tabindex=0, role="region", aria_label=caption)
    return Markup(scrolled.text + (element("p", more, class_="quiet").text if more else ""))


def _cell(cell: Markup | str) -> Markup | str:
    return cell if isinstance(cell, Markup) else short(cell, _TEXT)


def _class(number: int, texts: int) -> str | None:
    return None if number < texts else "n"


def _left_out(total: int, limit: int, one: str) -> str:
    return f"{count_text(total - limit, f'more {one}')} not shown." if total > limit else ""


def workload_table(recording: Recording) -> Markup:
    """Counts and times to ready of the workloads."""
    workloads = [
        workload
        for workload in recording.workloads
        if workload.pods_created or workload.ready.most or workload.desired.most
    ]
    workloads.sort(key=lambda workload: (-workload.most_unavailable, -workload.pods_created))
    rows = [
        [
            workload_title(workload),
            number_text(workload.desired.last[-1] if workload.desired.last else 0),
            number_text(workload.pods_created),
            number_text(workload.pods_deleted),
            number_text(workload.most_unavailable),
            _below(workload),
            *_percentiles(workload.time_to_ready),
            number_text(workload.never_ready),
            number_text(workload.restarts),
            number_text(workload.evictions),
        ]
        for workload in workloads[:MAX_WORKLOADS]
    ]
    heads = ["Workload", "Desired", "Created", "Deleted", "Max un­available", "Below bound for"]
    heads += ["Ready p50", "p95", "p99", "Longest", "Never ready", "Restarts", "Evicted"]
    total = len(workloads) + recording.more_workloads
    return table("Pods of each workload", heads, rows, more=_left_out(total, MAX_WORKLOADS, "workload"))


def _below(workload: Workload) -> str:
    seconds = max((bound.seconds_below for bound in workload.bounds), default=0.0)
    return seconds_text(seconds) if seconds else "–"


def _percentiles(percentiles: Percentiles) -> list[str]:
    if not percentiles.count:
        return ["–"] * 4
    return [seconds_text(seconds) for seconds in (percentiles.p50, percentiles.p95, percentiles.p99, percentiles.most)]


def bound_table(recording: Recording) -> Markup:
    """Required numbers of ready pods, and how far they were missed."""
    rows = [
        [
            workload_title(workload),
            bound.name,
            number_text(bound.least.last[-1] if bound.least.last else 0),
            number_text(bound.most_below),
            seconds_text(bound.seconds_below),
        ]
        for workload in recording.workloads
        for bound in workload.bounds
        if bound.least.most
    ]
    heads = ["Workload", "Bound", "Required ready pods", "Max missing", "For"]
    more = _left_out(len(rows), MAX_WORKLOADS, "bound")
    return table("Bounds of ready pods", heads, rows[:MAX_WORKLOADS], texts=2, more=more)


def rollout_table(recording: Recording, axis: Axis) -> Markup:
    """Rollouts with their durations."""
    rows = []
    for workload in recording.workloads:
        images = {revision.name: revision_text(revision, 0) for revision in workload.revisions}
        for rollout in workload.rollouts:
            duration = "not finished" if rollout.finished is None else seconds_text(rollout.finished - rollout.began)
            name = images.get(rollout.revision, f"revision {rollout.number or rollout.revision}")
            rows.append(
                [
                    workload_title(workload),
                    name,
                    axis.label(rollout.began),
                    duration,
                    number_text(rollout.fewest_ready),
                    number_text(rollout.most_pods),
                ]
            )
    heads = ["Workload", "Revision", "Started at", "Duration", "Min ready", "Max pods"]
    more = _left_out(len(rows), MAX_ROLLOUTS, "rollout")
    return table("Rollouts", heads, rows[:MAX_ROLLOUTS], texts=2, more=more)


def deletion_table(recording: Recording) -> Markup:
    """Deletions of pods by client."""
    rows = [
        [workload_title(workload), client, number_text(count)]
        for workload in recording.workloads
        for client, count in workload.deleted_by.items()
    ]
    rows = sorted(rows, key=lambda row: -int(row[2].replace(",", "")))
    more = _left_out(len(rows), MAX_WRITERS, "line")
    return table("Deleted pods by client", ["Workload", "Client", "Pods"], rows[:MAX_WRITERS], texts=2, more=more)


_OUTCOMES = {"held": ("✓ held", "good"), "violated": ("✗ violated", "bad"), "open": ("undecided", "quiet")}


def expectation_table(expectations: Sequence[ExpectationResult], axis: Axis) -> Markup:
    """Expectations with their outcomes."""
    rows: list[list[Markup | str]] = []
    for expectation in expectations[:MAX_MARKS]:
        text, style = _OUTCOMES[expectation.outcome]
        at = "–" if expectation.at is None else axis.label(expectation.at + axis.zero)
        rows.append(
            [expectation.name, expectation.kind, element("span", text, class_=style), expectation.message or "–", at]
        )
    heads = ["Expectation", "Kind", "Outcome", "Message", "At"]
    more = _left_out(len(expectations), MAX_MARKS, "expectation")
    return table("Expectations", heads, rows, texts=4, more=more)


def budget_table(budgets: Sequence[BudgetResult], axis: Axis) -> Markup:
    """Budgets with measured values and limits."""
    rows: list[list[Markup | str]] = []
    for budget in budgets:
        timed = "timeToReady" in budget.name or budget.name.rpartition(" ")[2] in ("p50", "p95", "p99", "max")
        format_measure = seconds_text if timed else number_text
        state = "✓ held" if budget.held else "✗ no such workload" if budget.missing else "✗ exceeded"
        outcome = element("span", state, class_="good" if budget.held else "bad")
        at = "–" if budget.at is None else axis.label(budget.at + axis.zero)
        rows.append(
            [budget.name, format_measure(float(budget.measured)), format_measure(float(budget.limit)), outcome, at]
        )
    return table("Budgets", ["Budget", "Measured", "Limit", "Outcome", "First exceeded at"], rows)


def slowest_table(budgets: Sequence[BudgetResult]) -> Markup:
    """The slowest pods of exceeded times to ready."""
    pods = {pod.pod: pod for budget in budgets for pod in budget.pods}
    rows = [
        [wait.pod, wait.node or "–", wait.ended, wait.waited_for, seconds_text(wait.seconds)]
        for wait in sorted(pods.values(), key=lambda pod: -pod.seconds)
    ]
    heads = ["Pod", "Node", "Outcome", "Waited for", "Time"]
    return table("Slowest pods of exceeded budgets", heads, rows, texts=4)


def write_table(recording: Recording) -> Markup:
    """Writes by client and resource."""
    rows = [
        [write.client, write.resource, *map(number_text, (write.created, write.modified, write.deleted, write.total))]
        for write in recording.writes[:MAX_WRITERS]
    ]
    rest = recording.writes[MAX_WRITERS:]
    more = ""
    if rest:
        left_out = count_text(sum(write.total for write in rest), "more write")
        more = f"{left_out} of {count_text(len(rest), 'line')} not shown."
    heads = ["Client", "Resource", "Created", "Modified", "Deleted", "All"]
    return table(f"Writes: {number_text(recording.total_writes)}", heads, rows, texts=2, more=more)


def request_table(recording: Recording) -> Markup:
    """API requests by client and verb."""
    counts: dict[str, dict[str, int]] = {}
    for name, by_client in recording.requests.counts.items():
        client, _space, verb = name.rpartition(" ")
        counts.setdefault(client or name, {})[verb if client else ""] = sum(by_client)
    verbs = [verb for verb in _VERBS if any(verb in by_verb for by_verb in counts.values())]
    ordered = sorted(counts.items(), key=lambda entry: (-sum(entry[1].values()), entry[0]))
    rows = [
        [
            client,
            *(number_text(by_verb[verb]) if verb in by_verb else "–" for verb in verbs),
            number_text(sum(by_verb.values())),
        ]
        for client, by_verb in ordered[:MAX_CLIENTS]
    ]
    caption = f"API requests: {number_text(recording.requests.total)}"
    more = _left_out(len(ordered), MAX_CLIENTS, "client")
    return table(caption, ["Client", *verbs, "All"], rows, more=more)


def event_table(recording: Recording, axis: Axis) -> Markup:
    """Groups of Events, warnings first."""
    groups = shown_events(recording.events)
    rows = [
        [
            f"{'⚠ ' if group.type == 'Warning' else ''}{group.reason}",
            group.object if group.objects == 1 else f"{group.object} and {group.objects - 1:,} more",
            group.message,
            number_text(group.count),
            axis.label(group.first),
            axis.label(group.last),
        ]
        for group in groups[:MAX_EVENTS]
    ]
    left_out = len(groups) - min(len(groups), MAX_EVENTS)
    more = f"{count_text(left_out, 'more group')} not shown." if left_out else ""
    if recording.more_events:
        more += f" {count_text(recording.more_events, 'more event')} not recorded."
    return table("Events", ["Reason", "Object", "First message", "Count", "First", "Last"], rows, texts=3, more=more)


def mark_table(recording: Recording, axis: Axis) -> Markup:
    """Actions, faults and violations, with their numbers in the pictures."""
    marks = numbered(recording.marks)
    rows = [
        [str(number), axis.label(mark.at), NAMES.get(mark.kind, mark.kind), mark.text.partition("\n")[0]]
        for number, mark in marks[:MAX_MARKS]
    ]  # fmt: skip
    total = len(marks) + recording.more_marks
    return table(
        "Actions, faults and violations",
        ["No.", "At", "Kind", "Description"],
        rows,
        texts=4,
        more=_left_out(total, MAX_MARKS, "mark"),
    )
