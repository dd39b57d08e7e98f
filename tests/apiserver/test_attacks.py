"""Attacks on a running ``pilothouse up``: other clients get responses in time whatever one client sends.

The rows are in ``attacks``, by the attacked part. During each, ``/livez`` responds within 250 ms, memory grows by less
than 64 MB, and the process keeps running; a row itself asserts that no client reads or writes without permission.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.apiserver.attacks import admission, bodies, pods, requests
from tests.apiserver.attacks.attacked_plane import Attack, AttackedPlane, Slow

ATTACKS = sorted(
    [*requests.ATTACKS, *bodies.ATTACKS, *admission.ATTACKS, *pods.ATTACKS], key=lambda attack: attack.flags
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of a process in /proc"),
    pytest.mark.xdist_group("attacks"),
]


class _Running:
    """One process at a time, for as long as rows with its flags follow one another."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._flags: tuple[str, ...] = ()
        self._plane: AttackedPlane | None = None
        self._stack = contextlib.ExitStack()

    def plane(self, flags: tuple[str, ...]) -> AttackedPlane:
        """The process with these flags; another one if an attack has ended it."""
        plane = self._plane
        if plane is None or flags != self._flags or plane.program.code is not None:
            self.close()
            directory = self._directory / f"plane{len(list(self._directory.iterdir()))}"
            directory.mkdir()
            plane = self._plane = self._stack.enter_context(AttackedPlane(directory, flags))
            self._flags = flags
        return plane

    def close(self) -> None:
        """End it."""
        self._plane = None
        self._stack.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Running]:
    """The processes of this module, one after the other."""
    with contextlib.closing(_Running(tmp_path_factory.mktemp("attacked"))) as running:
        yield running


@pytest.mark.parametrize("attack", [pytest.param(attack, id=attack.name) for attack in ATTACKS])
def test_attack_does_not_affect_other_clients(running: _Running, attack: Attack) -> None:
    """Others are answered in time while this is sent.

    What an attack costs, it costs each time; what the machine had to do meanwhile, it seldom does three times.
    """
    for last in (False, False, True):
        plane = running.plane(attack.flags)
        try:
            with plane.bounded():
                attack.send(plane)
        except Slow as slow:
            if last:
                raise
            print(f"once more: {slow}")
        else:
            return
