"""Malformed input of any kind gets a response: no 500 that upstream does not have, no traceback, no stall, no crash.

2,000 cases, 100,000 with ``--soak``; ``--seed 17`` or ``--seed 300-599`` repeats those. A failing case prints its seed
and its request.
"""

import contextlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.apiserver.attacks.attacked_plane import AttackedPlane
from tests.apiserver.raw_requests import cases, seeds
from tests.apiserver.raw_requests.connection import RawConnection, Unanswered

_CASES, _SOAKED = 2_000, 100_000
_TOGETHER = 200
"""Cases after which it is looked whether the plane has kept its promises."""
_ENOUGH = 20
"""Faults after which no more are looked for."""

_FAIR = (504, 505)
"""An answer to ``timeout=1ns``, and to another version of HTTP."""
_UPSTREAMS = re.compile(
    "|".join(
        (
            # Answers of v1.36.2 to such requests, each from ``recorded/data``.
            r"strconv\.ParseUint: parsing ",
            r"resourceVersion: Invalid value: ",
            r"resourceVersion should not be set on objects to be created",
            r"unknown patch type: ",
            r"failed to create typed (patch|live) object",
            r"failed to convert new object",
            r"target\.(kind|name): ",
            # Errors of a strategic merge (apimachinery ``pkg/util/strategicpatch/patch.go`` and ``meta.go``, v0.36).
            r"merging an object in json but data type is not struct, instead is:",
            r"unable to find api field in struct ",
            r"does not contain declared merge key:",
            r"list element types are not identical:",
            r"expected a \S+( \S+)?, but received a ",
            r"no elements in any of the given slices",
            r"merging lists cannot yet be specified in the patch",
            r"cannot merge lists without merge key",
            # There is no kubelet to pass a connection on to.
            r"error trying to reach service: node ",
        )
    ),
)
"""Messages of the 500s that upstream answers as well."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of a process in /proc"),
    pytest.mark.xdist_group("attacks"),
    pytest.mark.timeout(7200),
]


class _Faults:
    """Sends cases to one plane, and collects failures."""

    def __init__(self, plane: AttackedPlane) -> None:
        self._plane = plane
        self._connection = RawConnection(plane)
        self._logged = plane.program.path.stat().st_size
        self.found: list[str] = []
        self.statuses: Counter[int] = Counter()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def play(self, numbers: Sequence[int]) -> None:
        """Send some cases in sequence; cases that block the plane are identified by sending each alone."""
        known = len(self.found)
        try:
            with self._plane.bounded():
                for number in numbers:
                    self._play_one(number)
            # The requests leave more and more pods, and lists of thousands take time and memory.
            self._plane.as_admin("DELETE", f"/api/v1/namespaces/{seeds.NAMESPACE}/events")
        except AssertionError as error:
            if len(numbers) == 1 or self._plane.program.code is not None:
                self._note(numbers[0], str(error)[:1500])
            elif len(self.found) == known:
                for number in numbers:
                    self.play([number])

    def _play_one(self, number: int) -> None:
        try:
            self._send(number)
        except Unanswered as error:
            # The server closes the connection after a body that it does not read completely, so the next request fails.
            # Over a new connection it is answered.
            print(f"seed {number} once more: {error}")
            try:
                self._send(number)
            except Unanswered as again:
                self._note(number, str(again))

    def _send(self, number: int) -> None:
        for sent in cases.make(number):
            try:
                status, body = self._connection.request(sent)
            except Unanswered as error:
                raise Unanswered(f"no answer to {sent.data[:1000]!r}: {error}") from None
            self.statuses[status] += 1
            if sent.expected and status != sent.expected:
                self._note(number, f"{status} and not {sent.expected} to {sent.data[:1000]!r}: {body[:500]!r}")
            elif status >= 500 and status not in _FAIR and not _is_upstreams(body):
                self._note(number, f"{status} to {sent.data[:3000]!r}: {body[:1000]!r}")
            if traceback := self._traceback():
                self._note(number, f"after {sent.data[:3000]!r}: {traceback}")

    def _traceback(self) -> str:
        path = self._plane.program.path
        size = path.stat().st_size
        if size == self._logged:
            return ""
        with path.open("rb") as log:
            log.seek(self._logged)
            printed = log.read().decode(errors="replace")
        self._logged = size
        return printed[-3000:] if "Traceback" in printed else ""

    def _note(self, number: int, text: str) -> None:
        self.found.append(f"seed {number} (make test-all ARGS='-k raw_requests --seed {number}'): {text}")


def _is_upstreams(body: bytes) -> bool:
    # YAML breaks long lines.
    return _UPSTREAMS.search(" ".join(body.decode(errors="replace").split())) is not None


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[AttackedPlane]:
    """A plane with a namespace, and a kind of custom resources."""
    with AttackedPlane(tmp_path) as plane:
        assert plane.as_admin("POST", "/api/v1/namespaces", {"metadata": {"name": seeds.NAMESPACE}}).status == 201
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert plane.as_admin("POST", definitions, seeds.DEFINITION).status == 201
        yield plane


def test_no_input_causes_a_server_error(plane: AttackedPlane, pytestconfig: pytest.Config, soak: bool) -> None:
    chosen: str = pytestconfig.getoption("--seed")
    first, _dash, last = chosen.partition("-")
    numbers = range(int(first), int(last or first) + 1) if chosen else range(_SOAKED if soak else _CASES)
    with contextlib.closing(_Faults(plane)) as faults:
        _play(faults, numbers)
    print(f"{len(numbers)} cases: {sorted(faults.statuses.items())}")
    assert not faults.found, "\n\n".join(faults.found)


def _play(faults: _Faults, numbers: range) -> None:
    for begin in range(0, len(numbers), _TOGETHER):
        faults.play(numbers[begin : begin + _TOGETHER])
        if len(faults.found) > _ENOUGH:
            return


def test_cases_are_deterministic_by_seed() -> None:
    assert [cases.make(number) for number in range(50)] == [cases.make(number) for number in range(50)]
    assert len({cases.make(number) for number in range(500)}) > 450
