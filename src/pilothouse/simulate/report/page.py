"""A recording as a self-contained HTML page: result, pictures on one time axis, tables. Pure."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from pilothouse.simulate.recording import VIOLATION, Mark, Recording
from pilothouse.simulate.report import tables
from pilothouse.simulate.report.axis import Axis
from pilothouse.simulate.report.markup import LONGEST, Markup, element, short
from pilothouse.simulate.report.plot import axis_of, last_change, picture, sections_of
from pilothouse.simulate.report.styles import PATTERNS, picture_css
from pilothouse.simulate.report.texts import number_text, seconds_text
from pilothouse.simulate.result import BudgetResult, ExpectationResult

_LONGEST_WHY = 20_000
_MAX_VIOLATIONS = 5
_CAPTIONS = {
    "workloads": "Pods of each workload by revision, with the number of ready ones and the required bounds; "
    "below, missing pods. If there are too many workloads, those with the most activity.",
    "nodes": "The state of each node by its conditions.",
    "requests": "Requests by client and verb, each row with its own scale; the total at the right.",
    "queues": "Depths of the manager's work queues, sampled at writes; the maximum at the right.",
    "events": "Groups of Events, from the first to the last; triangles are warnings.",
}


def html(
    recording: Recording,
    *,
    budgets: Sequence[BudgetResult] = (),
    expectations: Sequence[ExpectationResult] = (),
    replay: str = "",
    links: Sequence[str] = (),
) -> str:
    """The page. ``replay`` is the command that repeats the run, ``links`` are related pages."""
    content = [
        _header(recording, axis_of(recording)),
        *body(recording, budgets, expectations),
        _footer(recording, replay, links),
    ]
    return document(f"{short(recording.name or 'simulation', LONGEST)}: report", content)


def body(
    recording: Recording, budgets: Sequence[BudgetResult], expectations: Sequence[ExpectationResult]
) -> list[Markup]:
    """The body of a report: everything except the name and the replay command."""
    axis = axis_of(recording)
    pictures = [
        figure(
            section.key,
            section.title,
            picture(section.panels, recording, axis, _label(section.key, recording)),
            _CAPTIONS[section.key],
        )
        for section in sections_of(recording, axis)
    ]
    details = [
        tables.workload_table(recording),
        tables.bound_table(recording),
        tables.rollout_table(recording, axis),
        tables.deletion_table(recording),
        tables.write_table(recording),
        tables.request_table(recording),
        tables.event_table(recording, axis),
    ]
    return [
        _violations(recording, axis),
        tables.expectation_table(expectations, axis),
        tables.budget_table(budgets, axis),
        tables.slowest_table(budgets),
        tables.mark_table(recording, axis),
        *pictures,
        element("h2", "Numbers"),
        *details,
    ]


def document(title: str, content: Sequence[Markup]) -> str:
    """A page without external resources; its only inline content is its own style and script."""
    style, script = _file("page.css") + picture_css(), _file("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content="pilothouse"),
        element("title", title),
        element("style", Markup(style)),
    )
    # The patterns of all pictures. They would have no effect in an element with ``display: none``.
    patterns = element("svg", PATTERNS, width=0, height=0, aria_hidden="true", class_="patterns")
    body = element("body", patterns, element("main", *content), element("script", Markup(script)))
    return f"<!doctype html>\n{element('html', head, body, lang='en').text}\n"


def _file(name: str) -> str:
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _header(recording: Recording, axis: Axis) -> Markup:
    failed = bool(recording.failure)
    outcome = element(
        "p",
        "✗ Failed" if failed else "✓ Passed",
        class_=f"outcome {'bad' if failed else 'good'}",
    )
    explained = any(mark.kind == VIOLATION for mark in recording.marks)
    failure = element("p", short(recording.failure, 2000), class_="failure") if failed and not explained else Markup("")
    return element(
        "header",
        element("h1", short(recording.name or "Simulation", LONGEST)),
        outcome,
        failure,
        facts(run_facts(recording, axis)),
    )


def run_facts(recording: Recording, axis: Axis) -> list[tuple[str, str]]:
    """The facts of a run, as names and values."""
    most = max((workload.most_unavailable for workload in recording.workloads), default=0)
    rest = axis.end < recording.seconds * 0.99
    pairs = [
        *([("Variant", recording.variant)] if recording.variant else []),
        ("Seed", str(recording.seed)),
        ("Virtual time", seconds_text(recording.seconds)),
        *([("Quiet after", axis.label(last_change(recording)))] if rest else []),
        (
            "Virtual start time",
            recording.began.partition(".")[0].replace("T", " ") + (" UTC" if recording.began else ""),
        ),
        ("Max unavailable pods", number_text(most)),
        ("Pods created", number_text(sum(workload.pods_created for workload in recording.workloads))),
        ("Writes", number_text(recording.total_writes)),
        ("API requests", number_text(recording.requests.total)),
    ]
    times = recording.time_to_ready
    if times.count:
        percentiles = (times.p50, times.p95, times.p99, times.most)
        pairs.append(("Time to ready, p50 / p95 / p99 / longest", " / ".join(map(seconds_text, percentiles))))
    return pairs


def facts(pairs: Sequence[tuple[str, str]]) -> Markup:
    """Render names and values as a list."""
    cells = [element("div", element("dt", name), element("dd", value)) for name, value in pairs]
    return element("dl", *cells, class_="facts")


def _violations(recording: Recording, axis: Axis) -> Markup:
    violations = [mark for mark in recording.marks if mark.kind == VIOLATION]
    if not violations:
        return Markup("")
    violation_elements = [_violation(mark, axis) for mark in violations[:_MAX_VIOLATIONS]]
    return element(
        "section", element("h2", "Why it failed" if len(violation_elements) == 1 else "Violations"), *violation_elements
    )


def _violation(mark: Mark, axis: Axis) -> Markup:
    parts = [element("h3", f"At {axis.label(mark.at)}"), element("pre", short(mark.text, _LONGEST_WHY))]
    if mark.why:
        parts.append(element("h4", "Causes of the write"))
        parts.append(element("pre", short(mark.why, _LONGEST_WHY), class_="why"))
    return element("div", *parts, class_="violation")


def figure(key: str, title: str, drawn: Markup, text: str) -> Markup:
    """A picture with heading and caption."""
    scrolled = element("div", drawn, class_="scroll plot", tabindex=0, role="region", aria_label=f"{title}, picture")
    caption = element("figcaption", text)
    return element("section", element("h2", title), element("figure", caption, scrolled), id=key)


def _label(key: str, recording: Recording) -> str:
    return f"{key} over {seconds_text(recording.seconds)}; the numbers are in the tables below"


def _footer(recording: Recording, replay: str, links: Sequence[str]) -> Markup:
    parts = [
        element("p", "Times are virtual and relative to the start of the timeline. The same seed gives the same run."),
    ]
    parts += [element("p", "See ", element("a", link, href=link, rel="noreferrer")) for link in links]
    if replay:
        parts.append(element("p", "Repeat this run: ", element("code", replay)))
    if recording.digest:
        parts.append(element("p", "Digest of all writes: ", element("code", recording.digest)))
    return element("footer", *parts)
