"""Attacks through the commands of containers, which the simulated nodes interpret."""

import time
from typing import Any

from tests.apiserver.attacks.attacked_plane import Attack, AttackedPlane

_PODS = "/api/v1/namespaces/default/pods"
_SCRIPTS = {
    "numbers": "for i in $(seq 999); do for j in $(seq 1 999999); do break; done; done",
    "empty": "for i in $(seq 1 1999); do : " + '"" ' * 10_000 + "; done",
    "background": "for i in $(seq 1 600); do while true; do foo " + "a " * 5_000 + "; done & done",
    "subshells": " ".join(f"a{number}=" for number in range(4_000)) + "; for i in $(seq 1 999); do ( : ); done",
    "commands": "true;" * 6_000,
}


def _run(plane: AttackedPlane, name: str, *containers: dict[str, Any]) -> None:
    """Create the pod, and wait until its first container has a state."""
    spec = {"containers": [{"name": f"c{at}", "image": "i", **each} for at, each in enumerate(containers)]}
    created = plane.as_user("POST", _PODS, {"metadata": {"name": name}, "spec": {**spec, "restartPolicy": "Never"}})
    assert created.status == 201, created.body[:500]
    for _ in range(100):
        statuses = plane.as_user("GET", f"{_PODS}/{name}").json["status"].get("containerStatuses")
        if statuses and "waiting" not in statuses[0]["state"]:
            break
        time.sleep(0.05)
    else:
        raise AssertionError(f"{name} does not run: {statuses}")
    log = plane.as_user("GET", f"{_PODS}/{name}/log?container=c0")
    assert log.status in (200, 400), log.body[:500]
    assert plane.as_user("DELETE", f"{_PODS}/{name}?gracePeriodSeconds=0").status == 200


def _scripts(plane: AttackedPlane) -> None:
    for name, script in _SCRIPTS.items():
        _run(plane, name, {"command": ["sh", "-c", script]})


def _many_scripts(plane: AttackedPlane) -> None:
    _run(plane, "many", *({"command": ["sh", "-c", script]} for script in _SCRIPTS.values() for _ in range(6)))


def _references(plane: AttackedPlane) -> None:
    env = [{"name": "A", "value": "x" * 1_000}, {"name": "B", "value": "$(A)" * 200_000}]
    _run(plane, "references", {"command": ["echo", "$(B)", "$(A)" * 100_000], "env": env})


def _nested_programs(plane: AttackedPlane) -> None:
    _run(plane, "programs", {"command": ["env"] * 300 + [""] * 200_000})


def _no_time(plane: AttackedPlane) -> None:
    _run(plane, "long", {"command": ["sh", "-c", f"sleep {'9' * 400}; echo x"]})


ATTACKS = [
    Attack("scripts that loop over millions of words", _scripts),
    Attack("a pod of thirty such scripts", _many_scripts),
    Attack("references to long variables", _references),
    Attack("programs that run programs, three hundred deep", _nested_programs),
    Attack("a sleep longer than all times", _no_time),
]
