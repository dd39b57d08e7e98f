"""``pilothouse simulate``: a scenario in virtual time, for one seed or many."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pilothouse.cli.clientside import common_flags
from pilothouse.cli.program import parse
from pilothouse.cli.terminal import escaped
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, INT32, STRING, Flag, FlagSet, FlagType, Parsed

if TYPE_CHECKING:
    from pilothouse.simulate.recording import Recording
    from pilothouse.simulate.scenario import Scenario

with lazy_imports():
    from pilothouse.simulate import jobs, scenario, search, seeds
    from pilothouse.simulate import run as runs
    from pilothouse.simulate.outputs import documents, replay, text
    from pilothouse.simulate.scenario import json_schema, overrides

USAGE = """Runs a scenario in virtual time: a cluster, what happens to it, and what has to hold.

Usage:
  {program} SCENARIO.yaml [flags]
  {program} --schema

The exit code is 0 if everything held in every run, 1 if something did not, 2 if the command line or the scenario can't
be used, and 130 after Ctrl-C.
"""
_SETTINGS = FlagType("PATH=VALUE", lambda text: (text,), " ".join, join=lambda before, further: (*before, *further))


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "runs",
        Flag("seeds", STRING, "0", "The seeds to run: 17, 1-1000 or 3,7,100-199"),
        Flag("keep-going", BOOL, False, "Run all seeds, also after one has failed"),
        Flag("only", STRING, "", "Leave out all actions and faults but these, by number, as a failure lists them"),
        Flag("shrink-runs", INT32, 100, "Runs to find the fewest actions and faults that still fail; 0: none"),
        Flag(
            "set", _SETTINGS, (), "Change a value of the scenario, such as manager.flags.node-monitor-grace-period=20s"
        ),
    )
    flags.add(
        "output",
        Flag("output", STRING, "text", "Output format: text or json", shorthand="o", choices=("text", "json")),
        Flag("schema", BOOL, False, "Print the JSON Schema of scenarios, for editors"),
    )
    common_flags(flags)
    return flags


def run(program: str, words: Sequence[str]) -> int:
    """Run the seeds of a scenario."""
    parsed = parse(flag_set(program), program, words, most=1)
    if isinstance(parsed, int):
        return parsed
    if parsed["schema"]:
        print(json_schema.schema_text(), end="")
        return 0
    try:
        return _Command(program, parsed).run()
    except scenario.ScenarioError as error:
        return _error(str(error))
    except ValueError as error:
        return _error(f'{error}\nSee "{program} --help" for usage.')


def _error(message: str) -> int:
    print("\n".join(map(escaped, f"Error: {message}".split("\n"))), file=sys.stderr)
    return 2


class _Silent:
    def finished(self, result: Any) -> None:
        """Nothing is shown."""

    def shrinking(self, failed: Any) -> None:
        """Nothing is shown."""


class _Command:
    """One call. Raises ``ScenarioError``, and ``ValueError`` for flags."""

    def __init__(self, program: str, parsed: Parsed) -> None:
        if len(parsed.arguments) != 1:
            raise ValueError("expected the file of a scenario")
        if parsed["output"] not in {"text", "json"}:
            raise ValueError(f'-o is text or json, got "{parsed["output"]}"')
        self._parsed = parsed
        self._path = parsed.arguments[0]
        self._seeds = seeds.parse_seeds(parsed["seeds"])
        self._only = seeds.parse_parts(parsed["only"]) if parsed["only"] else None
        self._replay = replay.Replay(program=program, path=self._path, settings=parsed["set"])

    def run(self) -> int:
        """Returns the exit code."""
        loaded = self._load()
        runner = jobs.LocalRunner([loaded])
        wanted = [jobs.Job(number=number, seed=seed, only=self._only) for number, seed in enumerate(self._seeds)]
        searched = search.Search(
            runner,
            _Silent(),
            keep_going=self._parsed["keep-going"],
            shrink_runs=0 if self._only is not None else self._parsed["shrink-runs"],
            record=self._records,
        )
        searched.run(wanted)
        self._print(loaded, searched, len(wanted))
        self._write(_recordings(searched))
        if searched.interrupted:
            return 130
        return 1 if searched.found else 0

    def _load(self) -> "Scenario":
        settings = [overrides.parse_setting(each) for each in self._parsed["set"]]
        loaded = scenario.load(self._path, overrides=settings)
        runs.validate(loaded)
        return loaded

    # What comes out

    @property
    def _records(self) -> bool:
        """Whether a flag asks for recordings."""
        return False

    def _write(self, recordings: "list[Recording]") -> None:
        """Files that are made of recordings; nothing is recorded unless ``_records``."""

    def _print(self, loaded: "Scenario", searched: "search.Search", asked: int) -> None:
        if self._parsed["output"] == "json":
            shown = documents.document(
                loaded.name, searched.finished, searched.found, self._replay, [()], interrupted=searched.interrupted
            )
            print(documents.text(shown))
            return
        for found in searched.found:
            _print_lines(text.found_lines(found, self._replay))
        if len(searched.finished) == 1:
            _print_lines(text.run_lines(searched.finished[0][1]))
        else:
            _print_lines(text.search_lines(loaded.name, searched.finished, asked))


def _print_lines(lines: Iterable[str]) -> None:
    print("\n".join(escaped(line) for text in lines for line in text.split("\n")), flush=True)


def _recordings(searched: "search.Search") -> "list[Recording]":
    """Those of the first runs, in their order, then those of the failures, with the fewest actions and faults."""
    results = [result for _job, result in searched.finished] + [found.result for found in searched.found if found.runs]
    return [result.recording for result in results if result.recording is not None]
