"""Manifests applied to a cluster, and their rollout shown until it is complete, with the reasons while it is not."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from pilothouse.cli import manifests as manifest_files
from pilothouse.cli import rollout, terminal
from pilothouse.cli.program import UserError, joined
from pilothouse.client import errors
from pilothouse.plane import explain

if TYPE_CHECKING:
    from pilothouse.cli.manifests import AppliedObject, Manifest
    from pilothouse.cli.rollout import Progress
    from pilothouse.client import Client

_CHECK_SECONDS = 0.1
_ESTABLISHED_SECONDS = 10.0
_DEFINITION = "CustomResourceDefinition"
_ORDER = {
    "Namespace": 0,
    _DEFINITION: 1,
    # Pods are rejected, or have no limits, before these exist, and wait for the last two.
    "ResourceQuota": 2,
    "LimitRange": 2,
    "PriorityClass": 2,
    "RuntimeClass": 2,
    "ServiceAccount": 2,
    "ConfigMap": 2,
    "Secret": 2,
}
"""What is applied first, as with ``helm install`` (helm ``pkg/release/util/kind_sorter.go``, v3)."""
_STALLED_SECONDS = 1.0
"""The reason is shown for an object without progress for this time."""


async def apply_all(
    client: "Client",
    manifests: "Sequence[Manifest]",
    *,
    limit: float | None,
    missing_controller: "Callable[[AppliedObject], str]" = lambda _one: "",
) -> int:
    """Apply the manifests, and show their rollout until all are ready or have failed. Returns the exit code: 0, or 1 if
    they are not ready within ``limit`` seconds. ``missing_controller`` returns the controller that an object needs and
    that does not run, or "". Raises ``UserError``."""
    applied_objects = []
    async for applied_object in applied(warned(client, say), manifests):
        applied_objects.append(applied_object)
        say(applied_text(applied_object))
        missing = missing_controller(applied_object)
        if missing:
            say(f"{_title(applied_object)}: it will not be reconciled, because {missing} is not running")
    if not applied_objects:
        return 0
    rollout = _Rollout(client, applied_objects)
    try:
        async with asyncio.timeout(limit):
            await rollout.watch()
    except TimeoutError:
        await rollout.explain()
        say(f"not ready after {limit:g} s: {'; '.join(rollout.left)}")
        return 1
    except asyncio.CancelledError:
        if limit is not None:
            say("; ".join(["interrupted", *(f"not ready: {left}" for left in rollout.left)]))
        raise
    if rollout.left:
        say(f"not ready: {'; '.join(rollout.left)}")
        return 1
    say("all manifests are ready")
    return 0


async def applied(client: "Client", manifests: "Sequence[Manifest]") -> "AsyncIterator[AppliedObject]":
    """Apply the manifests: first Namespaces, CustomResourceDefinitions, and what pods need, otherwise in their order.
    As with kubectl, the others are applied if one is rejected; then ``UserError`` has the reason for each."""
    definitions: list[AppliedObject] = []
    rejected: list[UserError] = []
    for manifest in sorted(manifests, key=_rank):
        if definitions and manifest.document["kind"] != _DEFINITION:
            await _wait_established(client, definitions)
            definitions = []
        try:
            applied_object = await manifest_files.apply_manifest(client, manifest)
        except UserError as error:
            rejected.append(error)
            continue
        if applied_object.kind.kind == _DEFINITION:
            definitions.append(applied_object)
        yield applied_object
    if rejected:
        raise joined(rejected)


def _rank(manifest: "Manifest") -> int:
    return _ORDER.get(manifest.document["kind"], len(_ORDER))


async def _wait_established(client: "Client", definitions: "Sequence[AppliedObject]") -> None:
    """Return when objects of these kinds can be created; after a timeout raise ``UserError`` with the reason for the
    first that can't."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ESTABLISHED_SECONDS):
            for applied_object in definitions:
                while True:
                    raw = await client.get(applied_object.kind.raw, applied_object.name)
                    if rollout.is_established(msgspec.json.decode(raw)):
                        break
                    await asyncio.sleep(_CHECK_SECONDS)


class _Rollout:
    """Shows the progress of objects when it changes, and why one does not progress."""

    def __init__(self, client: "Client", applied_objects: Sequence["AppliedObject"]) -> None:
        self._client = client
        self._explainer = explain.Explainer(client)
        self._left = dict(enumerate(applied_objects))
        self._shown: dict[int, str] = {}
        self._since: dict[int, float] = {}
        self._why: dict[int, str] = {}
        self._said: dict[int, set[tuple[str, str, str]]] = {}
        self._failed: set[int] = set()

    @property
    def left(self) -> list[str]:
        """The objects that are not done, their progress, and the reasons."""
        lines = []
        for number, applied_object in self._left.items():
            reason = self._why.get(number)
            text = self._shown.get(number, "not checked yet")
            lines.append(f"{_title(applied_object)}: {text}{f' ({reason})' if reason else ''}")
        return lines

    async def watch(self) -> None:
        """Return when all are done or have failed."""
        now = asyncio.get_running_loop().time
        while waiting := [item for item in self._left.items() if item[0] not in self._failed]:
            self._explainer.reread()
            for number, applied_object in waiting:
                progress = await self._progress_of(applied_object)
                if self._shown.get(number) != progress.text:
                    self._shown[number], self._since[number] = progress.text, now()
                    if progress.text != rollout.EXISTS:  # what was done with it is printed already
                        say(f"{_title(applied_object)}: {progress.text}")
                if progress.done:
                    del self._left[number], self._shown[number]
                elif progress.failed:
                    self._failed.add(number)
                    await self._explain(number, applied_object)
                elif now() - self._since[number] >= _STALLED_SECONDS:
                    self._since[number] = now()
                    await self._explain(number, applied_object)
            if len(self._failed) < len(self._left):
                await asyncio.sleep(_CHECK_SECONDS)

    async def explain(self) -> None:
        """Show the reasons of objects that are not done."""
        self._explainer.reread()
        for number, applied_object in list(self._left.items()):
            await self._explain(number, applied_object)

    async def _explain(self, number: int, applied_object: "AppliedObject") -> None:
        """Show what the object's warnings say. Each statement is shown once: an attempt that fails again for the same
        reason, or another pod, says nothing new."""
        warnings = await self._explainer.warned(
            applied_object.kind.kind, applied_object.name, applied_object.namespace, applied_object.uid
        )
        if not warnings:
            self._why.pop(number, None)  # the pods have been scheduled since
            return
        self._why[number] = warnings[0].line
        said = self._said.setdefault(number, set())
        for warned in warnings:
            if warned.statement not in said:
                said.add(warned.statement)
                say(f"  {_title(applied_object)}: {warned.line}")

    async def _progress_of(self, applied_object: "AppliedObject") -> "Progress":
        try:
            raw = await self._client.get(applied_object.kind.raw, applied_object.name, applied_object.namespace)
        except errors.NotFound:
            return rollout.Progress("is gone", False)
        except errors.MethodNotAllowed:
            return rollout.Progress("is not stored", True)
        return rollout.progress_of(msgspec.json.decode(raw))


def applied_text(applied_object: "AppliedObject") -> str:
    """The result for the object of a manifest."""
    return f"{_title(applied_object)} {applied_object.verb}"


def warned(client: "Client", show: "Callable[[str], None]") -> "Client":
    """The client, which shows each warning of the API server once, as kubectl does."""
    shown = set[str]()

    def handle(text: str) -> None:
        if text not in shown:
            shown.add(text)
            show(f"Warning: {terminal.escaped(text)}")

    return client.with_warning_handler(handle)


def _title(applied_object: "AppliedObject") -> str:
    name = f"{applied_object.kind.group_resource}/{applied_object.name}"
    return f"{name} in {applied_object.namespace}" if applied_object.namespace else name


def say(text: str) -> None:
    """Print a line immediately."""
    print(text, flush=True, file=sys.stdout)
