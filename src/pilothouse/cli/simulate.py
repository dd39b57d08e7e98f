"""``pilothouse simulate``: a scenario in virtual time, for one seed or many."""

import itertools
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pilothouse.cli import output_files
from pilothouse.cli.clientside import common_flags
from pilothouse.cli.interruption import Interruption, interruptible
from pilothouse.cli.program import parse
from pilothouse.cli.terminal import escaped
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, DURATION, INT32, STRING, Flag, FlagSet, FlagType, Parsed

if TYPE_CHECKING:
    from pilothouse.simulate.recording import Recording
    from pilothouse.simulate.scenario import Scenario

with lazy_imports():
    from pilothouse.simulate import jobs, progress, scenario, search, seeds, variants, workers
    from pilothouse.simulate import run as runs
    from pilothouse.simulate.outputs import documents, junit, recordings, replay, reports, text
    from pilothouse.simulate.scenario import json_schema, overrides

USAGE = """Runs a scenario in virtual time: a cluster, actions and faults, and expectations.

Usage:
  {program} SCENARIO.yaml [flags]
  {program} --schema

The exit code is 0 if all expectations held in all runs, 1 if one did not, 2 if the command line or the scenario can't
be used, and 3 if a process died or a run took too long. After Ctrl-C (130) or SIGTERM (143) the results so far are
written, marked as interrupted.
"""
_CRASHED = 3
MAX_PROCESSES = 256
_PATH = FlagType("path", str)
_SETTINGS = FlagType("PATH=VALUE", lambda text: (text,), " ".join, join=lambda old, further: (*old, *further))


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "runs",
        Flag("seeds", STRING, "0", "The seeds to run: 17, 1-1000 or 3,7,100-199"),
        Flag("keep-going", BOOL, False, "Run all seeds, also after one has failed"),
        Flag("only", STRING, "", "Run only these actions and faults, by their numbers in the output of a failure"),
        Flag("shrink-runs", INT32, 100, "Runs to find the fewest actions and faults that still fail; 0: none"),
        Flag(
            "jobs",
            INT32,
            -1,
            "Processes that run at the same time; -1: as many as there are processors; 0: run everything in this "
            "process, for debuggers",
        ),
        Flag("timeout", DURATION, 3600.0, "Real time that a run may take; 0: no limit"),
        Flag(
            "vary",
            _SETTINGS,
            (),
            "Run every seed with each of several values: PATH=VALUE,VALUE. With several of these flags: with every "
            "combination. All runs are executed, and nothing is shrunk",
        ),
        Flag(
            "set", _SETTINGS, (), "Change a value of the scenario, such as manager.flags.node-monitor-grace-period=20s"
        ),
    )
    flags.add(
        "output",
        Flag("output", STRING, "text", "Output format: text or json", shorthand="o", choices=("text", "json")),
        Flag("junit", _PATH, "", "Write a JUnit report to this file"),
        Flag("record", _PATH, "", "Write the recordings of the runs to this file, a line of JSON for each"),
        Flag("report", _PATH, "", "Write a report to this HTML file: the failure, or all runs compared"),
        Flag("plot", _PATH, "", "Write the pictures of the report to this SVG file"),
        Flag("schema", BOOL, False, "Print the JSON Schema of scenarios, for editors"),
    )
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Run the seeds of a scenario."""
    parsed = parse(flag_set(program), program, args, most=1)
    if isinstance(parsed, int):
        return parsed
    if parsed["schema"]:
        print(json_schema.schema_text(), end="")
        return 0
    try:
        with interruptible() as interruption:
            return _Command(program, parsed, interruption).run()
    except scenario.ScenarioError as error:
        return _error(str(error))
    except ValueError as error:
        return _error(f'{error}\nSee "{program} --help" for usage.')


def _error(message: str) -> int:
    print("\n".join(map(escaped, f"Error: {message}".split("\n"))), file=sys.stderr)
    return 2


class _Command:
    """One execution of the command. Raises ``ScenarioError``, and ``ValueError`` for flags."""

    def __init__(self, program: str, parsed: Parsed, interruption: Interruption) -> None:
        self._interruption = interruption
        if len(parsed.arguments) != 1:
            raise ValueError("expected the file of a scenario")
        if parsed["output"] not in {"text", "json"}:
            raise ValueError(f'-o is text or json, got "{parsed["output"]}"')
        if parsed["jobs"] < -1:
            raise ValueError(f"--jobs must be -1 or more, got {parsed['jobs']}")
        if parsed["timeout"] < 0:
            raise ValueError("--timeout must not be negative")
        if parsed["shrink-runs"] < 0:
            raise ValueError(f"--shrink-runs must not be negative, got {parsed['shrink-runs']}")
        self._parsed = parsed
        self._path = parsed.arguments[0]
        self._seeds = seeds.parse_seeds(parsed["seeds"])
        self._only = seeds.parse_parts(parsed["only"]) if parsed["only"] else None
        self._varies = bool(parsed["vary"])
        self._variants = variants.variants_of(parsed["vary"])
        if len(self._seeds) * len(self._variants) > seeds.MAX_SEEDS:
            raise ValueError(f"at most {seeds.MAX_SEEDS} runs at a time")
        for name in ("record", "report", "plot", "junit"):
            if parsed[name] and (
                reason := output_files.why_unwritable(parsed[name])
            ):  # report it now, not after the runs
                raise ValueError(f"--{name} {parsed[name]}: {reason}")
        for name, endings, written in (("report", (".html", ".htm"), "an HTML page"), ("plot", (".svg",), "SVG")):
            ending = Path(parsed[name]).suffix
            if ending[1:].isalpha() and ending.lower() not in endings:
                raise ValueError(
                    f"--{name} {parsed[name]}: {written} is written; choose a name that ends in {endings[0]}"
                )
        self._replay = replay.Replay(program=program, path=self._path, settings=parsed["set"])

    def run(self) -> int:
        """Returns the exit code."""
        scenarios = self._load()
        if self._only is not None:
            try:
                runs.check_parts(scenarios, self._seeds, self._only)
            except ValueError as error:
                raise ValueError(f"--only: {error}") from None
        job_list = [
            jobs.Job(number=number, variant=variant, seed=seed, only=self._only)
            for number, (variant, seed) in enumerate(itertools.product(range(len(self._variants)), self._seeds))
        ]
        printer = progress.Progress(sys.stderr, len(job_list))
        runner = self._runner(scenarios, len(job_list), printer)
        searched = search.Search(
            runner,
            printer,
            keep_going=self._parsed["keep-going"] or self._varies,
            shrink_runs=0 if self._only is not None or self._varies else self._parsed["shrink-runs"],
            record=self._records,
        )
        try:
            searched.run(job_list)
        finally:
            self._interruption.finish()
            runner.close()
            printer.close()
        self._print(scenarios[0].name, searched, len(job_list))
        self._write(searched)
        if self._parsed["junit"]:
            _write_text(self._parsed["junit"], self._junit(scenarios[0].name, searched, len(job_list)))
        return self._interruption.code if searched.interrupted and self._interruption.number else _code(searched)

    def _load(self) -> "list[Scenario]":
        settings = [overrides.parse_setting(assignment) for assignment in self._parsed["set"]]
        loaded = []
        for variant in self._variants:
            try:
                loaded.append(scenario.load(self._path, overrides=[*settings, *variant.overrides]))
                runs.validate(loaded[-1])
            except scenario.ScenarioError as error:
                if not variant.overrides:
                    raise
                raise scenario.ScenarioError(f"{error} (with {', '.join(variant.settings)})") from error
        return loaded

    def _runner(self, scenarios: "list[Scenario]", count: int, printer: "progress.Progress") -> "jobs.Runner":
        processes = self._parsed["jobs"]
        if processes == 0:
            return jobs.LocalRunner(scenarios)
        if processes < 0:
            processes = available_processors()
        return workers.ProcessRunner(
            scenarios,
            min(processes, count, MAX_PROCESSES),
            timeout=self._parsed["timeout"],
            tick=printer.tick,
        )

    # Output

    @property
    def _records(self) -> bool:
        """Whether a flag requires recordings."""
        return any(self._parsed[name] for name in ("record", "report", "plot"))

    def _write(self, searched: "search.Search") -> None:
        """Write the files that need recordings; nothing is recorded unless ``_records``."""
        recorded = _recordings(searched, self._variants)
        if self._parsed["record"]:
            try:
                with output_files.opened(self._parsed["record"]) as file:
                    recordings.write(file, recorded)
            except OSError as error:
                raise ValueError(f"{self._parsed['record']}: {error.strerror}") from error
            output_files.report_written(self._parsed["record"])
        if not recorded:
            return  # interrupted before the first run had ended
        chosen_report = reports.chosen(searched, self._variants, self._replay)
        if self._parsed["report"]:
            _write_text(self._parsed["report"], reports.page(chosen_report))
        if self._parsed["plot"]:
            _write_text(self._parsed["plot"], reports.plot(chosen_report))

    def _print(self, name: str, searched: "search.Search", requested: int) -> None:
        settings = [variant.settings for variant in self._variants]
        if self._parsed["output"] == "json":
            result_document = documents.document(
                name,
                searched.finished,
                searched.failures,
                self._replay,
                self._variants,
                interrupted=searched.interrupted,
            )
            print(documents.text(result_document))
            return
        for failure in searched.failures:
            _print_lines(text.failure_lines(failure, self._replay, settings[failure.job.variant], brief=self._varies))
        if self._varies:
            width = shutil.get_terminal_size((120, 24)).columns
            _print_lines(text.variant_lines(name, searched.finished, self._variants, width))
        elif len(searched.finished) == 1 == requested:
            _print_lines(text.run_lines(searched.finished[0][1]))
        else:
            _print_lines(text.search_lines(name, searched.finished, requested))
        if searched.interrupted:
            print("interrupted", file=sys.stderr)

    def _junit(self, name: str, searched: "search.Search", requested: int) -> str:
        settings = [variant.settings for variant in self._variants]
        interrupted = ""
        if searched.interrupted:
            interrupted = f"{self._interruption.name or 'SIGINT'} after {len(searched.finished)} of {requested} runs"
        return junit.document(
            name, searched.finished, searched.failures, self._replay, settings, interrupted=interrupted
        )


def available_processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _code(searched: "search.Search") -> int:
    kinds = [result.failure.kind for _job, result in searched.finished if result.failure is not None]
    if searched.interrupted:
        return 130
    if any(kind in ("crash", "timeout") for kind in kinds):
        return _CRASHED
    return 1 if kinds else 0


def _write_text(path: str, content: str) -> None:
    try:
        output_files.write(path, content.encode())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    output_files.report_written(path)


def _print_lines(lines: Iterable[str]) -> None:
    print("\n".join(escaped(line) for text in lines for line in text.split("\n")), flush=True)


def _recordings(searched: "search.Search", varied: "Sequence[variants.Variant]") -> "list[Recording]":
    """The recordings of all runs, in their order, then those of the shrunk failures."""
    results = list(searched.finished) + [(failure.job, failure.result) for failure in searched.failures if failure.runs]
    return [
        msgspec.structs.replace(result.recording, variant=varied[job.variant].title)
        for job, result in results
        if result.recording is not None
    ]
