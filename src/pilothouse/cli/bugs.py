"""``pilothouse bugs``: known bugs of Kubernetes' controllers, reproduced with and without the guard against them."""

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.cli import output_files
from pilothouse.cli.clientside import common_flags
from pilothouse.cli.interruption import Interruption, interruptible
from pilothouse.cli.program import parse
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, INT32, STRING, Flag, FlagSet, FlagType, Parsed

if TYPE_CHECKING:
    from pilothouse.simulate.bugs.declaration import Bug, Scenario
    from pilothouse.simulate.bugs.running import Outcome

with lazy_imports():
    from pilothouse.simulate import report
    from pilothouse.simulate.bugs import catalogue, running

USAGE = """Known bugs of Kubernetes' controllers, each as a scenario that runs in virtual time: with the guard that
prevents the bug in pilothouse, or without it.

Usage:
  {program} list [flags]
  {program} run NAME [--unguarded] [flags]
  {program} run --all [flags]

NAME is the number of an issue, as `list` prints it. The exit code of `run` is 0 if all results are as declared: no bug
with the guard, and the bug without it. After Ctrl-C (130) or SIGTERM (143) it prints the results so far.
"""


_PATH = FlagType("path", str)
_UNUSABLE = 2


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "bugs",
        Flag("all", BOOL, False, "Run all scenarios, with the guard and without"),
        Flag("unguarded", BOOL, False, "Run without the guard"),
        Flag("scenario", STRING, "", "Run only the scenarios whose name begins with this text"),
        Flag("seed", INT32, -1, "The seed of the run, if not the scenario's own"),
        Flag("output", STRING, "text", "Output format: text or json", shorthand="o"),
        Flag("report", _PATH, "", "Write a report of the run to this HTML file"),
    )
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """List or run."""
    parsed = parse(flag_set(program), program, args, most=2)
    if isinstance(parsed, int):
        return parsed
    verb, *names = parsed.arguments or [""]
    if error := _usage_error(verb, names, parsed):
        print(f'Error: {error}\nSee "{program} --help" for usage.', file=sys.stderr)
        return 2
    if verb == "list":
        return _list(parsed["output"])
    try:
        chosen = list(_chosen(names, parsed))
        if not chosen:
            raise catalogue.UnknownBug(f"no scenario has a name that begins with {parsed['scenario']!r}")
    except catalogue.UnknownBug as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    if parsed["report"] and len(chosen) > 1:
        listed = ", ".join(repr(scenario.name) for _bug, scenario, _unguarded in chosen)
        print(f"Error: --report writes one run: choose one with --scenario: {listed}", file=sys.stderr)
        return 2
    with interruptible() as interruption:
        return _run(chosen, parsed, interruption)


def _usage_error(verb: str, names: list[str], parsed: Parsed) -> str:
    if parsed["output"] not in {"text", "json"}:
        return f'-o is text or json, got "{parsed["output"]}"'
    if verb not in {"list", "run"}:
        return f'expected "pilothouse bugs list" or "pilothouse bugs run BUG", got {verb or "nothing"}'
    if parsed["report"] and (reason := output_files.why_unwritable(parsed["report"])):
        return f"--report {parsed['report']}: {reason}"
    if parsed["report"] and parsed["all"]:
        return "--report writes one run: omit --all"
    if verb == "list":
        return f'list takes no name, got "{names[0]}"' if names else ""
    if bool(names) == parsed["all"]:
        return "run takes the name of a bug, or --all"
    return "--all runs both ways: omit --unguarded" if parsed["all"] and parsed["unguarded"] else ""


# List


def _list(output: str) -> int:
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode([_described(bug) for bug in catalogue.BUGS]), indent=2).decode())
        return 0
    rows = [("NUMBER", "CONTROLLER", "PATTERN", "UPSTREAM", "TITLE")]
    for bug in catalogue.BUGS:
        patterns = ", ".join(pattern.value for pattern in bug.patterns)
        state = bug.upstream.partition(";")[0].partition(":")[0].partition("(")[0].strip()
        rows.append((bug.number, bug.controller, patterns, state, bug.title))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, [*widths, 0], strict=True)).rstrip())
    return 0


def _described(bug: "Bug") -> dict[str, Any]:
    return {
        "id": bug.id,
        "threads": list(bug.threads),
        "links": bug.links,
        "title": bug.title,
        "controller": bug.controller,
        "patterns": [pattern.value for pattern in bug.patterns],
        "upstream": bug.upstream,
        "mechanism": bug.mechanism,
        "protection": bug.protection,
        "limits": bug.limits,
        "scenarios": [
            {"name": scenario.name, "description": scenario.description, "unguarded": scenario.unguarded is not None}
            for scenario in bug.scenarios
        ],
    }


# Running

Choice = tuple["Bug", "Scenario", bool]
"""Bug, scenario, and whether to run without the guard."""


def _chosen(names: list[str], parsed: Parsed) -> Iterator[Choice]:
    """Raises ``UnknownBug``."""
    if parsed["all"]:
        for bug in catalogue.BUGS:
            for scenario in bug.scenarios:
                if scenario.name.startswith(parsed["scenario"]):
                    yield bug, scenario, False
                    if scenario.unguarded is not None:
                        yield bug, scenario, True
        return
    bug = catalogue.find(names[0])
    scenarios = catalogue.find_scenarios(bug, parsed["scenario"])
    if parsed["unguarded"]:
        possible = [scenario for scenario in scenarios if scenario.unguarded is not None]
        if not possible:
            raise catalogue.UnknownBug(f"{bug.id}, {scenarios[0].name!r}, has no run without the guard")
        scenarios = possible
    for scenario in scenarios:
        yield bug, scenario, bool(parsed["unguarded"])


def _run(chosen: list[Choice], parsed: Parsed, interruption: Interruption) -> int:
    outcomes: list[Outcome] = []
    code = 0
    try:
        code = _run_all(chosen, parsed, outcomes)
    except KeyboardInterrupt:
        code = interruption.code if interruption.number else 130
    interruption.finish()
    wrong = sum(not outcome.as_declared for outcome in outcomes)
    if parsed["output"] == "json" and code != _UNUSABLE:
        print(msgspec.json.format(msgspec.json.encode(outcomes), indent=2).decode())
    elif parsed["all"]:
        print(f"{len(outcomes)} runs of {len({outcome.bug for outcome in outcomes})} bugs, {wrong} not as declared")
    if code > _UNUSABLE:
        print(f"interrupted after {len(outcomes)} of {len(chosen)} runs", file=sys.stderr)
    return code or (1 if wrong else 0)


def _run_all(chosen: list[Choice], parsed: Parsed, outcomes: "list[Outcome]") -> int:
    """Run them, and append the outcomes. Returns ``_UNUSABLE`` if the report can't be written."""
    seed = parsed["seed"] if parsed["seed"] >= 0 else None
    previous: Bug | None = None
    for bug, scenario, unguarded in chosen:
        if parsed["report"]:
            outcome, recorded = running.run_recorded(bug, scenario, unguarded=unguarded, seed=seed)
            page = report.html(recorded, replay=_command(bug, scenario, recorded.seed, outcome), links=bug.links)
            try:
                output_files.write(parsed["report"], page.encode())
            except OSError as error:
                print(f"Error: {parsed['report']}: {error.strerror}", file=sys.stderr)
                return _UNUSABLE
            output_files.report_written(parsed["report"])
        else:
            outcome = running.run(bug, scenario, unguarded=unguarded, seed=seed)
        outcomes.append(outcome)
        if parsed["output"] == "text":
            brief = bool(parsed["all"])
            if bug is not previous and not brief:
                print("\n".join(_head(bug)))
            lines = [_line(outcome)] if brief and outcome.as_declared else _report(scenario, outcome, brief=brief)
            print("\n".join(lines), flush=True)
        previous = bug
    return 0


def _command(bug: "Bug", scenario: "Scenario", seed: int, outcome: "Outcome") -> str:
    args = ["pilothouse", "bugs", "run", bug.number, "--scenario", scenario.name, "--seed", str(seed)]
    return shlex.join([*args, *(["--unguarded"] if outcome.unguarded else [])])


def _head(bug: "Bug") -> Iterator[str]:
    yield f"{bug.id}  {bug.title}"
    yield from (f"  {link}" for link in bug.links)
    yield f"  upstream:  {bug.upstream}"
    yield f"  cause:     {bug.mechanism}"
    yield f"  guard:     {bug.protection}"
    if bug.limits:
        yield f"  limits:    {bug.limits}"
    yield ""


def _line(outcome: "Outcome") -> str:
    mode = "with the guard   " if not outcome.unguarded else "without the guard"
    result = "ok " if outcome.as_declared else "BAD"
    return f"{result} {outcome.bug}  {mode}  {outcome.scenario}" + (f": {outcome.failure}" if outcome.failure else "")


def _report(scenario: "Scenario", outcome: "Outcome", *, brief: bool) -> Iterable[str]:
    if brief:
        yield _line(outcome)
    else:
        yield f"{outcome.scenario}: {scenario.description}"
        yield f"  {_result(outcome)}, after {outcome.seconds:.0f} virtual seconds and {outcome.writes} writes"
    if outcome.expected and not outcome.as_declared:
        yield f"  expected: {outcome.expected}"
    if outcome.failure:
        yield f"  failure: {outcome.failure}"
        if outcome.why:
            yield "  why it was written:"
            yield from (f"    {line}" for line in outcome.why)
        yield "  the end of the log:"
        yield from (f"    {line}" for line in outcome.log)
    yield ""


def _result(outcome: "Outcome") -> str:
    if not outcome.unguarded:
        return "the guard held" if outcome.as_declared else "THE GUARD DID NOT HOLD"
    if outcome.as_declared:
        return "without the guard the bug happened"
    return "WITHOUT THE GUARD IT FAILED FOR ANOTHER REASON" if outcome.failure else "WITHOUT THE GUARD NOTHING HAPPENED"
