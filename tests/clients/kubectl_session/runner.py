"""Runs a kubectl session on a side: its steps in sequence, each when the cluster is idle.

Output that changes during a step cannot be compared, so a step has a condition to wait for (``after``); the checks
below are for that. ``script`` has the steps.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from tests.clients.kubectl_session.manifests import FILES
from tests.clients.kubectl_session.sides import Answer, Side
from tests.programs import until

Check = Callable[[Side], object]
SHOP = "/api/v1/namespaces/shop"
APPS = "/apis/apps/v1/namespaces/shop"


@dataclass(frozen=True)
class Step:
    """One command. ``editor`` is for ``kubectl edit``; with ``unordered`` the order of lines is ignored.

    ``newer``: what is printed has changed since v1.20, so that only the exit code is compared; golden output has the
    rest.

    ``watch``: it runs on in the background from its first line on, until a later step ``ends`` it: then, when its last
    line matches ``last``, its output is that step's answer.
    """

    name: str
    line: str = ""
    after: tuple[Check, ...] = ()
    editor: str = ""
    unordered: bool = False
    newer: bool = False
    watch: bool = False
    ends: str = ""
    last: str = ""


def run_script(side: Side, script: tuple[Step, ...], answers: dict[str, Answer]) -> None:
    """Run the script, and return the results by step name."""
    for name, documents in FILES.items():
        (side.directory / name).write_text("\n---\n".join(json.dumps(document, indent=1) for document in documents))
    watches: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for step in script:
            for check in step.after:
                until(partial(check, side), f"{side.name}: {check.__doc__}, before {step.name!r}", 40)
            if step.watch:
                watches[step.name] = _start(side, step)
            elif step.ends:
                answers[step.name] = _end(side, step, watches.pop(step.ends))
            else:
                more = {"KUBE_EDITOR": step.editor} if step.editor else {}
                answers[step.name] = side.kubectl(tuple(shlex.split(step.line)), more=more)
    finally:
        for watch in watches.values():
            watch.kill()
            watch.wait(10)


def _start(side: Side, step: Step) -> "subprocess.Popen[bytes]":
    path = side.directory / f"{step.name}.watch"
    with path.open("wb") as out:
        command = side.command(tuple(shlex.split(step.line)))
        watch = subprocess.Popen(command, stdout=out, stderr=out, cwd=side.directory, env=side.environment())
    # The first output is the list; the watch starts at its revision, so no later change is missed.
    until(lambda: path.read_text().count("\n") >= 2, f"{side.name}: {step.name!r} prints something")
    return watch


def _end(side: Side, step: Step, watch: "subprocess.Popen[bytes]") -> Answer:
    path = side.directory / f"{step.ends}.watch"
    try:
        until(lambda: re.search(step.last + "$", path.read_text().rstrip()), f"{side.name}: {step.name!r}: {step.last}")
    finally:
        watch.kill()
        watch.wait(10)
    return Answer(0, path.read_text(), "")


# What a step waits for


def _describes(text: str) -> Callable[[Check], Check]:
    def describe(check: Check) -> Check:
        check.__doc__ = text
        return check

    return describe


def exists(path: str) -> Check:
    @_describes(f"{path} is there")
    def check(side: Side) -> object:
        return side.read(path)

    return check


def is_deleted(path: str) -> Check:
    @_describes(f"{path} is gone")
    def check(side: Side) -> object:
        return side.read(path) is None

    return check


def matches(path: str, text: str, holds: Callable[[Any], object]) -> Check:
    @_describes(f"{path} {text}")
    def check(side: Side) -> object:
        result = side.read(path)
        return result is not None and holds(result)

    return check


def items(path: str, count: int, text: str = "", holds: Callable[[Any], object] = lambda _item: True) -> Check:
    """A check that the list has ``count`` objects, for each of which ``holds`` is true."""
    return matches(
        path,
        f"lists {count} {text}",
        lambda found: len(found["items"]) == count and all(holds(item) for item in found["items"]),
    )


def events(selector: str, count: int) -> Check:
    """A check for at least ``count`` events, which arrive later than their cause."""
    path = f"{SHOP}/events?fieldSelector={quote(selector)}"
    return matches(path, f"lists {count}", lambda found: len(found["items"]) >= count)


def is_ready(pod: Any) -> bool:
    """Whether the pod is Ready and not terminating."""
    conditions = {condition["type"]: condition["status"] for condition in pod.get("status", {}).get("conditions", ())}
    return "deletionTimestamp" not in pod["metadata"] and conditions.get("Ready") == "True"


def is_settled(replica_set: Any) -> bool:
    """Whether the ReplicaSet is observed and all its replicas are available."""
    status, spec = replica_set["status"], replica_set["spec"]
    counts = [status.get(key, 0) for key in ("replicas", "readyReplicas", "availableReplicas")]
    return (
        counts == [spec["replicas"]] * 3 and status.get("observedGeneration") == replica_set["metadata"]["generation"]
    )


def pods(app: str, count: int) -> Check:
    return items(f"{SHOP}/pods?labelSelector=app%3D{app}", count, f"ready pods of {app}", is_ready)


def deployed(name: str, replicas: int) -> tuple[Check, ...]:
    """Checks that the Deployment is complete and its pods are ready."""

    def settled(obj: Any) -> bool:
        status = obj["status"]
        counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
        return counts == [replicas] * 4 and status.get("observedGeneration") == obj["metadata"]["generation"]

    return (
        matches(f"{APPS}/deployments/{name}", "is settled", settled),
        pods(name, replicas),
        matches(
            f"{APPS}/replicasets?labelSelector=app%3D{name}",
            "are settled",
            lambda found: all(map(is_settled, found["items"])),
        ),
    )
