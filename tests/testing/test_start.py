"""The modules that the first plane of a process loads: most of its startup time, a fifth of a millisecond per
module."""

import functools
import subprocess
import sys

import pytest

MAX_MODULES = 535
"""The number when every informer has its first list, and the garbage collector watches all kinds. A plane is
ready before that, with 504 to 507 modules, which varies from run to run; this number does not."""
_PROGRAM = """
import sys, time
sys.path[:] = eval(sys.argv[1])
from pilothouse.testing import plane
with plane() as cluster:
    print(*sorted(sys.modules))
    known = 0
    while len(sys.modules) > known:
        known = len(sys.modules)
        time.sleep(0.5)
    print(*sorted(sys.modules))
"""


@functools.cache
def _loaded() -> tuple[frozenset[str], frozenset[str]]:
    """The modules of a process when its first plane over HTTP is ready and no more are being imported."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, repr(sys.path)], capture_output=True, text=True, timeout=60, check=True
    )
    ready, settled = done.stdout.splitlines()
    return frozenset(ready.split()), frozenset(settled.split())


def test_number_of_modules_loaded_by_the_first_plane() -> None:
    """If this fails: are the new modules needed at startup? Modules for rare requests or objects can be loaded later:
    by ``env.lazy``, or ``Watch.predicate`` of a controller's descriptor."""
    _ready, settled = _loaded()
    own = [name for name in settled if name.partition(".")[0] == "pilothouse"]
    assert len(own) <= MAX_MODULES


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cryptography", "nothing is encrypted"),
        ("dataclasses", "each of its classes takes half a millisecond, twenty times as long as a msgspec.Struct"),
        ("encodings.idna", "the tables of international host names"),
        ("gzip", "for large answers"),
        ("pilothouse.apiserver.internal_types", "for rejected objects"),
        ("pilothouse.apiserver.openapi.documents", "for kubectl explain"),
        ("pilothouse.apiserver.printers.tables", "for kubectl get"),
        ("pilothouse.apiserver.tracing", "nothing is traced"),
        ("pilothouse.controllers.workloads.deployment.controller", "there is no Deployment"),
        ("opentelemetry", "nothing is traced"),
        ("pilothouse.scheduler", "there is no pod"),
        ("re2", "for custom resources"),
        ("tempfile", "with shutil and all its archives"),
        ("yaml", "no request is YAML"),
        ("zoneinfo", "for CronJobs that name a zone"),
    ],
)
def test_what_a_plane_does_not_need_at_once_is_not_loaded(name: str, why: str) -> None:
    ready, _settled = _loaded()
    assert name not in ready, why
