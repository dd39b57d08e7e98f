"""Warnings about Jobs. After kubernetes' ``pkg/api/job/warnings.go`` (v1.36)."""

from collections.abc import Iterator

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.warnings import warnings_for_pod_template

_MAX_COMPLETIONS, _MAX_PARALLELISM = 100_000, 10_000
_TOO_MANY = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)


def warnings_for_job_spec(spec: Object, path: str) -> Iterator[str]:
    """``WarningsForJobSpec``."""
    if spec.get("completionMode") == "Indexed":
        completions, parallelism = spec.get("completions") or 0, spec.get("parallelism") or 0
        if completions > _MAX_COMPLETIONS and parallelism > _MAX_PARALLELISM:
            yield f"{path}: {_TOO_MANY}"
    yield from warnings_for_pod_template(spec.get("template"), f"{path}.template")
