"""What the first plane of a process loads: its start is mostly that, a fifth of a millisecond per module."""

import functools
import subprocess
import sys

import pytest

MOST = 505
"""So many are loaded when every informer has its first list. A plane is ready before some have asked: on a quiet
machine there are about 475 then, on a busy one more."""
_PROGRAM = """
import sys
sys.path[:] = eval(sys.argv[1])
from pilothouse.testing import plane
with plane() as cluster:
    print(*sorted(sys.modules))
"""


@functools.cache
def _loaded() -> frozenset[str]:
    """The modules of a process whose first plane over HTTP has just become ready."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, repr(sys.path)], capture_output=True, text=True, timeout=60, check=True
    )
    return frozenset(done.stdout.split())


def test_the_first_plane_loads_no_more_modules_than_it_did() -> None:
    """If this fails: does the start need the new ones? What rare requests or some objects need can come later: by
    ``env.lazy``, or ``Watch.predicate`` of a controller's descriptor."""
    own = [name for name in _loaded() if name.partition(".")[0] == "pilothouse"]
    assert len(own) <= MOST


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cryptography", "nothing is encrypted"),
        ("dataclasses", "each of its classes takes half a millisecond, twenty times as long as a msgspec.Struct"),
        ("encodings.idna", "the tables of international host names"),
        ("gzip", "for large answers"),
        ("pilothouse.apiserver.internal_types", "for what is refused"),
        ("pilothouse.apiserver.openapi.documents", "for kubectl explain"),
        ("pilothouse.apiserver.printers.tables", "for people"),
        ("pilothouse.apiserver.tracing", "nothing is traced"),
        ("pilothouse.controllers.workloads.deployment.controller", "there is no Deployment"),
        ("opentelemetry", "nothing is traced"),
        ("pilothouse.scheduler", "there is no pod"),
        ("re2", "for custom resources"),
        ("tempfile", "with shutil and all its archives"),
        ("yaml", "nothing is written in it"),
        ("zoneinfo", "for CronJobs that name a zone"),
    ],
)
def test_what_a_plane_does_not_need_at_once_is_not_loaded(name: str, why: str) -> None:
    assert name not in _loaded(), why
