"""The result of a search as JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.simulate.outputs.replay import Replay
from pilothouse.simulate.result import Result
from pilothouse.simulate.search import Finished, ShrunkFailure
from pilothouse.simulate.variants import Variant, measures_of, summary


def document(
    scenario: str,
    finished: Sequence[Finished],
    failures: Sequence[ShrunkFailure],
    replay: Replay,
    variants: Sequence[Variant],
    *,
    interrupted: bool,
) -> dict[str, Any]:
    """The complete result."""
    return {
        "scenario": scenario,
        "passed": sum(result.failure is None for _job, result in finished),
        "failed": sum(result.failure is not None for _job, result in finished),
        "interrupted": interrupted,
        "variants": [_variant(number, variant, finished) for number, variant in enumerate(variants)],
        "runs": [{"variant": job.variant, **_run(result)} for job, result in finished],
        "failures": [_failure(failure, replay, variants[failure.job.variant].settings) for failure in failures],
    }


def _variant(number: int, variant: Variant, finished: Sequence[Finished]) -> dict[str, Any]:
    results = [result for job, result in finished if job.variant == number]
    return {
        "settings": dict(variant.overrides),
        "runs": len(results),
        "failed": sum(result.failure is not None for result in results),
        "measures": {name: msgspec.to_builtins(summary(results, name)) for name in measures_of(results)},
    }


def _run(result: Result) -> dict[str, Any]:
    return {
        "seed": result.seed,
        "passed": result.failure is None,
        "failure": None if result.failure is None else msgspec.to_builtins(result.failure),
        "writes": result.writes,
        "digest": result.digest,
        "virtualSeconds": round(result.seconds, 3),
        "cpuSeconds": round(result.cpu, 3),
        "budgets": msgspec.to_builtins(result.budgets),
        "expectations": msgspec.to_builtins(result.expectations),
        "measures": result.measures,
        "notices": list(result.notices),
        "podsNotReady": list(result.never_ready),
        "podsDeletedBeforeReady": list(result.deleted_unready),
    }


def _failure(failure: ShrunkFailure, replay: Replay, settings: Sequence[str]) -> dict[str, Any]:
    parts = [part.number for part in failure.parts]
    return {
        "seed": failure.job.seed,
        "variant": failure.job.variant,
        "failure": msgspec.to_builtins(failure.failure),
        "parts": msgspec.to_builtins(failure.parts),
        "partsBefore": failure.of,
        "shrunkFailure": msgspec.to_builtins(failure.result.failure),
        "shrinkRuns": failure.runs,
        "log": failure.result.log.splitlines(),
        "replay": replay.command(failure.job.seed, parts, settings),
    }


def text(value: Any) -> str:
    """Format as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
