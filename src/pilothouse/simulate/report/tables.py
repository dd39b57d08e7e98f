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

MOST_WORKLOADS = 200
MOST_WRITERS = 40
MOST_CLIENTS = 40
MOST_EVENTS = 80
MOST_MARKS = 300
MOST_ROLLOUTS = 100
_TEXT = 300
"""Characters of a cell."""
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[Markup | str]], *, texts: int = 1, more: str = ""
) -> Markup:
    """A table whose first ``texts`` columns are text, the others numbers. ``more`` says what was left out."""
    if not rows:
        return Markup("")
    head = element("tr", *(element("th", each, scope="col", class_=_class(n, texts)) for n, each in enumerate(heads)))
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
    found = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    scrolled = element("div", found, class_="scroll", tabindex=0, role="region", aria_label=caption)
    return Markup(scrolled.text + (element("p", more, class_="quiet").text if more else ""))


def _cell(cell: Markup | str) -> Markup | str:
    return cell if isinstance(cell, Markup) else short(cell, _TEXT)


def _class(number: int, texts: int) -> str | None:
    return None if number < texts else "n"


def _left_out(total: int, most: int, one: str) -> str:
    return f"{count_text(total - most, f'more {one}')} not shown." if total > most else ""


def workload_table(recording: Recording) -> Markup:
    """How many at once, and how long pods took."""
    workloads = [each for each in recording.workloads if each.pods_created or each.ready.most or each.desired.most]
    workloads.sort(key=lambda each: (-each.most_unavailable, -each.pods_created))
    rows = [
        [
            workload_title(each),
            number_text(each.desired.last[-1] if each.desired.last else 0),
            number_text(each.pods_created),
            number_text(each.pods_deleted),
            number_text(each.most_unavailable),
            _below(each),
            *_percentiles(each.time_to_ready),
            number_text(each.never_ready),
            number_text(each.restarts),
            number_text(each.evictions),
        ]
        for each in workloads[:MOST_WORKLOADS]
    ]
    heads = ["Workload", "Desired", "Created", "Deleted", "Most un­available", "Below bound for"]
    heads += ["Ready p50", "p95", "p99", "Longest", "Never ready", "Restarts", "Evicted"]
    total = len(workloads) + recording.more_workloads
    return table("Pods of each workload", heads, rows, more=_left_out(total, MOST_WORKLOADS, "workload"))


def _below(workload: Workload) -> str:
    seconds = max((bound.seconds_below for bound in workload.bounds), default=0.0)
    return seconds_text(seconds) if seconds else "–"


def _percentiles(found: Percentiles) -> list[str]:
    if not found.count:
        return ["–"] * 4
    return [seconds_text(each) for each in (found.p50, found.p95, found.p99, found.most)]


def bound_table(recording: Recording) -> Markup:
    """What had to be ready, and what was missing."""
    rows = [
        [
            workload_title(each),
            bound.name,
            number_text(bound.least.last[-1] if bound.least.last else 0),
            number_text(bound.most_below),
            seconds_text(bound.seconds_below),
        ]
        for each in recording.workloads
        for bound in each.bounds
        if bound.least.most
    ]
    heads = ["Workload", "Bound", "Ready pods it demands", "Most missing", "For"]
    more = _left_out(len(rows), MOST_WORKLOADS, "bound")
    return table("Bounds of ready pods", heads, rows[:MOST_WORKLOADS], texts=2, more=more)


def rollout_table(recording: Recording, axis: Axis) -> Markup:
    """How long each took."""
    rows = []
    for workload in recording.workloads:
        images = {each.name: revision_text(each, 0) for each in workload.revisions}
        for each in workload.rollouts:
            took = "not finished" if each.finished is None else seconds_text(each.finished - each.began)
            name = images.get(each.revision, f"revision {each.number or each.revision}")
            rows.append(
                [
                    workload_title(workload),
                    name,
                    axis.label(each.began),
                    took,
                    number_text(each.fewest_ready),
                    number_text(each.most_pods),
                ]
            )
    heads = ["Workload", "To", "Began at", "Took", "Fewest ready", "Most pods"]
    more = _left_out(len(rows), MOST_ROLLOUTS, "rollout")
    return table("Rollouts", heads, rows[:MOST_ROLLOUTS], texts=2, more=more)


def deletion_table(recording: Recording) -> Markup:
    """Who deleted pods."""
    rows = [
        [workload_title(workload), client, number_text(count)]
        for workload in recording.workloads
        for client, count in workload.deleted_by.items()
    ]
    rows = sorted(rows, key=lambda row: -int(row[2].replace(",", "")))
    more = _left_out(len(rows), MOST_WRITERS, "line")
    return table("Pods deleted, by whom", ["Workload", "By", "Pods"], rows[:MOST_WRITERS], texts=2, more=more)


_OUTCOMES = {"held": ("✓ held", "good"), "violated": ("✗ violated", "bad"), "open": ("not decided", "quiet")}


def expectation_table(expectations: Sequence[ExpectationResult], axis: Axis) -> Markup:
    """What had to hold, and whether it did."""
    rows: list[list[Markup | str]] = []
    for each in expectations[:MOST_MARKS]:
        text, style = _OUTCOMES[each.outcome]
        at = "–" if each.at is None else axis.label(each.at + axis.zero)
        rows.append([each.name, each.kind, element("span", text, class_=style), each.message or "–", at])
    heads = ["Expectation", "Kind", "Outcome", "How", "At"]
    more = _left_out(len(expectations), MOST_MARKS, "expectation")
    return table("Expectations", heads, rows, texts=4, more=more)


def budget_table(budgets: Sequence[BudgetResult], axis: Axis) -> Markup:
    """What was used of each budget of the scenario."""
    rows: list[list[Markup | str]] = []
    for each in budgets:
        timed = "timeToReady" in each.name or each.name.rpartition(" ")[2] in ("p50", "p95", "p99", "max")
        shown = seconds_text if timed else number_text
        state = "✓ held" if each.held else "✗ no such workload" if each.missing else "✗ exceeded"
        outcome = element("span", state, class_="good" if each.held else "bad")
        at = "–" if each.at is None else axis.label(each.at + axis.zero)
        rows.append([each.name, shown(float(each.measured)), shown(float(each.limit)), outcome, at])
    return table("Budgets", ["Budget", "Used", "Allowed", "Outcome", "Exceeded first at"], rows)


def slowest_table(budgets: Sequence[BudgetResult]) -> Markup:
    """The pods behind a time to ready that was exceeded."""
    pods = {pod.pod: pod for each in budgets for pod in each.pods}
    rows = [
        [each.pod, each.node or "–", each.ended, each.waited_for, seconds_text(each.seconds)]
        for each in sorted(pods.values(), key=lambda pod: -pod.seconds)
    ]
    heads = ["Pod", "Node", "Outcome", "Waited for", "After"]
    return table("The slowest pods beyond their budget", heads, rows, texts=4)


def write_table(recording: Recording) -> Markup:
    """How many changes, of what, by whom."""
    rows = [
        [each.client, each.resource, *map(number_text, (each.created, each.modified, each.deleted, each.total))]
        for each in recording.writes[:MOST_WRITERS]
    ]
    rest = recording.writes[MOST_WRITERS:]
    more = ""
    if rest:
        left_out = count_text(sum(each.total for each in rest), "more write")
        more = f"{left_out} of {count_text(len(rest), 'line')} not shown."
    heads = ["Client", "Resource", "Created", "Modified", "Deleted", "All"]
    return table(f"Writes: {number_text(recording.total_writes)}", heads, rows, texts=2, more=more)


def request_table(recording: Recording) -> Markup:
    """API requests by client and verb."""
    counts: dict[str, dict[str, int]] = {}
    for name, each in recording.requests.counts.items():
        client, _space, verb = name.rpartition(" ")
        counts.setdefault(client or name, {})[verb if client else ""] = sum(each)
    verbs = [verb for verb in _VERBS if any(verb in each for each in counts.values())]
    ordered = sorted(counts.items(), key=lambda each: (-sum(each[1].values()), each[0]))
    rows = [
        [client, *(number_text(each[verb]) if verb in each else "–" for verb in verbs), number_text(sum(each.values()))]
        for client, each in ordered[:MOST_CLIENTS]
    ]
    caption = f"API requests: {number_text(recording.requests.total)}"
    more = _left_out(len(ordered), MOST_CLIENTS, "client")
    return table(caption, ["Client", *verbs, "All"], rows, more=more)


def event_table(recording: Recording, axis: Axis) -> Markup:
    """Warnings first."""
    groups = shown_events(recording.events)
    rows = [
        [
            f"{'⚠ ' if each.type == 'Warning' else ''}{each.reason}",
            each.object if each.objects == 1 else f"{each.object} and {each.objects - 1:,} more",
            each.message,
            number_text(each.count),
            axis.label(each.first),
            axis.label(each.last),
        ]
        for each in groups[:MOST_EVENTS]
    ]
    left_out = len(groups) - min(len(groups), MOST_EVENTS)
    more = f"{count_text(left_out, 'more group')} not shown." if left_out else ""
    if recording.more_events:
        more += f" {count_text(recording.more_events, 'more event')} not recorded."
    return table("Events", ["Reason", "Object", "First message", "Count", "First", "Last"], rows, texts=3, more=more)


def mark_table(recording: Recording, axis: Axis) -> Markup:
    """What happened, by the numbers in the pictures."""
    marks = numbered(recording.marks)
    rows = [
        [str(number), axis.label(mark.at), NAMES.get(mark.kind, mark.kind), mark.text.partition("\n")[0]]
        for number, mark in marks[:MOST_MARKS]
    ]  # fmt: skip
    total = len(marks) + recording.more_marks
    return table(
        "What happened", ["No.", "At", "Kind", "What"], rows, texts=4, more=_left_out(total, MOST_MARKS, "mark")
    )
