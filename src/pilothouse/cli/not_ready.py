"""``pilothouse why`` without an object: what is not ready in a namespace or in the cluster, and the root causes.

Not ready is what ``load`` would wait for (``rollout``), as far as no owner explains it: a Deployment stands for its
ReplicaSets and pods.
"""

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pilothouse.cli import rollout
from pilothouse.cli.rollout import Progress
from pilothouse.machinery.api_resources import Resource
from pilothouse.machinery.times import TimeError, parse_time
from pilothouse.why import UNREMARKABLE, Evidence, Explanation, Reference, explain
from pilothouse.why.steps import Step, cause_lines, plain_times, pluralize
from pilothouse.why.view import condition, controller_of

MAX_EXPLAINED = 10
_MAX_NAMED = 10
_SKIPPED = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})
"""Kinds with many objects, of which none is ever waited for."""
_FIRST = ("nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims")
"""What others wait for is explained first, and custom resources and workloads before single pods."""
_LAST = ("pods",)
_ENDED = ("Succeeded", "Failed")


class NotReady(msgspec.Struct, frozen=True):
    """An object that is not ready: the progress, as ``load`` prints it, and the explanation."""

    progress: str
    explanation: Explanation


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    """What is not ready. ``namespace`` is empty for the whole cluster."""

    namespace: str
    not_ready: list[NotReady] = []
    """The first ones, with those first that are root causes themselves."""
    not_explained: list[str] = []
    """The names of the others."""
    unseen: list[str] = []
    """What could not be read, and why."""


class _Candidate(msgspec.Struct, frozen=True):
    resource: str
    document: dict[str, Any]
    progress: Progress

    @property
    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self.document["metadata"]
        return metadata

    @property
    def reference(self) -> Reference:
        return Reference(self.resource, self.metadata.get("namespace") or "", self.metadata["name"])


async def overview(
    evidence: Evidence, resources: Sequence[Resource], namespace: str, *, time: datetime.datetime
) -> Overview | None:
    """Explain what is not ready in a namespace; with an empty one, in the cluster. None if nothing could be read. Reads
    that failed are listed in ``unseen``."""
    search = _Search(evidence, time)
    for resource in resources:
        is_examined = resource.supports("list", "watch") and resource.group_resource not in _SKIPPED
        if is_examined and (resource.namespaced or not namespace):
            await search.examine(resource, namespace)
    if namespace and (terminating := await _terminating_namespace(evidence, namespace)) is not None:
        search.candidates.append(terminating)
    shown = sorted(_without_dependents(search.candidates, search.owners), key=_rank)
    explained = [await _explained(evidence, candidate, time) for candidate in shown[:MAX_EXPLAINED]]
    if not search.has_read:
        return None
    return Overview(
        namespace,
        sorted(explained, key=lambda one: _importance(one.explanation)),
        [_title(evidence, candidate.reference, namespace) for candidate in shown[MAX_EXPLAINED:]],
        list(evidence.unseen),
    )


class _Search:
    """Collects the objects that are not ready."""

    def __init__(self, evidence: Evidence, time: datetime.datetime) -> None:
        self._evidence = evidence
        self._time = time
        self.candidates: list[_Candidate] = []
        self.owners: dict[str, str] = {}
        """The uid of the controller of each object."""
        self.has_read = False
        """Whether any list could be read."""

    async def examine(self, resource: Resource, namespace: str) -> None:
        """Examine the objects of a resource."""
        name, kind = resource.group_resource, {"apiVersion": resource.api_version, "kind": resource.kind}
        documents = await self._evidence.objects(name, namespace)
        self.has_read |= not self._evidence.is_unreadable(Reference(name, namespace, ""))
        for document in documents:
            self.owners[document["metadata"].get("uid", "")] = str(controller_of(document).get("uid") or "")
            progress = rollout.progress_of({**document, **kind})
            if not progress.done:
                candidate = _Candidate(name, document, progress)
                if not controller_of(document) or not await self._is_expected(candidate):
                    self.candidates.append(candidate)

    async def _is_expected(self, candidate: _Candidate) -> bool:
        """Whether an object is as its controller has it: a pod that has ended, a Job of a CronJob that runs, or an
        object that is deleted and within its grace period."""
        if candidate.metadata.get("deletionTimestamp"):
            return await self._is_within_grace(candidate)
        if candidate.resource == "jobs.batch":
            return not candidate.progress.failed
        phase = (candidate.document.get("status") or {}).get("phase") if candidate.resource == "pods" else ""
        return phase in _ENDED

    async def _is_within_grace(self, candidate: _Candidate) -> bool:
        """Whether the grace period is not over. For a pod it does not count if its node does not answer."""
        try:
            if self._time > parse_time(candidate.metadata["deletionTimestamp"]):
                return False
        except TimeError:
            return False
        if candidate.resource != "pods":
            return True
        node = Reference("nodes", "", str((candidate.document.get("spec") or {}).get("nodeName") or ""))
        is_ready = condition(await self._evidence.get(node), "Ready").get("status") == "True"
        return is_ready or self._evidence.is_unreadable(node)


async def _explained(evidence: Evidence, candidate: _Candidate, time: datetime.datetime) -> NotReady:
    explanation = await explain(evidence, candidate.reference, time=time)
    explanation.unseen = []  # it is that of all explanations
    return NotReady(candidate.progress.text, explanation)


async def _terminating_namespace(evidence: Evidence, namespace: str) -> _Candidate | None:
    document = await evidence.get(Reference("namespaces", "", namespace))
    if document is None:
        return None
    progress = rollout.progress_of({**document, "apiVersion": "v1", "kind": "Namespace"})
    return None if progress.done else _Candidate("namespaces", document, progress)


def _without_dependents(candidates: Sequence[_Candidate], owners: dict[str, str]) -> Iterator[_Candidate]:
    """Those of which no owner is not ready, too."""
    uids = {str(candidate.metadata.get("uid") or "") for candidate in candidates}
    for candidate in candidates:
        owner = owners.get(str(candidate.metadata.get("uid") or ""), "")
        seen = set[str]()
        while owner and owner not in uids and owner not in seen:
            seen.add(owner)
            owner = owners.get(owner, "")
        if owner not in uids:
            yield candidate


def _rank(candidate: _Candidate) -> tuple[int, str, str, str]:
    reference = candidate.reference
    if reference.resource in _FIRST:
        kind = _FIRST.index(reference.resource)
    else:
        kind = len(_FIRST) + (reference.resource in _LAST)
    return kind, reference.namespace, reference.resource, reference.name


def _importance(explanation: Explanation) -> tuple[bool, bool]:
    """Root causes first, and objects that make progress last, such as a Job that runs."""
    return explanation.state in UNREMARKABLE, not _is_own_cause(explanation)


def _is_own_cause(explanation: Explanation) -> bool:
    return any(_is_about(cause, explanation) for cause in explanation.root_causes)


def _is_about(cause: Step, explanation: Explanation) -> bool:
    return (cause.object, cause.namespace) == (explanation.object, explanation.namespace)


def _title(evidence: Evidence, reference: Reference, namespace: str) -> str:
    title = f"{evidence.kind_of(reference.resource)}/{reference.name}"
    return _scoped(title, reference.namespace, namespace)


def _scoped(title: str, of: str, namespace: str) -> str:
    """The title of an object, with its namespace unless that is the only one."""
    return f"{title} in namespace {of}" if of and not namespace else title


def overview_lines(result: Overview) -> list[str]:
    """A block for each object: its state, and its root causes, each of them once."""
    scope = f"in namespace {result.namespace}" if result.namespace else "in the cluster"
    lines = []
    number = len(result.not_ready) + len(result.not_explained)
    if number:
        lines.append(f"{pluralize(number, 'object')} {'is' if number == 1 else 'are'} not ready {scope}:")
    else:
        others = "; -A is for all namespaces" if result.namespace else ""
        lines.append(f"Everything {'that could be read ' if result.unseen else ''}{scope} is ready{others}.")
    named: dict[str, str] = {}
    for one in result.not_ready:
        title = _scoped(one.explanation.object, one.explanation.namespace, result.namespace)
        lines += ["", f"{title}: {_state(one)}", *(f"  {line}" for line in _block(one.explanation, title, named))]
    if result.not_explained:
        more, names = len(result.not_explained), ", ".join(result.not_explained[:_MAX_NAMED])
        others = f" and {more - _MAX_NAMED} others" if more > _MAX_NAMED else ""
        lines += ["", f"{more} more, not explained here: {names}{others}"]
    if result.not_ready:
        first = result.not_ready[0].explanation
        within = f" -n {first.namespace}" if first.namespace else ""
        lines += ["", f"More about {'it' if number == 1 else 'one of them'}: pilothouse why {first.object}{within}"]
    if result.unseen:
        lines += ["", "Not seen:", *(f"  {unseen}" for unseen in result.unseen)]
    return plain_times(lines)


def _block(explanation: Explanation, title: str, named: dict[str, str]) -> Iterator[str]:
    """The root causes of an object. Those of an object above are only referred to, and then the changes of this one,
    such as its creation, do not matter. ``named``: the objects by the root causes that they had first."""
    causes = explanation.root_causes
    shared = dict.fromkeys(named[cause.text] for cause in causes if cause.text in named)
    if shared:
        yield f"the same root cause as {', '.join(shared)}"
    for cause in causes:
        if cause.text not in named and not (shared and cause.is_change):
            named[cause.text] = title
            yield from cause_lines(cause)


def _state(one: NotReady) -> str:
    """State and progress. An object that makes progress only has that."""
    state = one.explanation.state
    if state in UNREMARKABLE:
        return one.progress
    is_repeated = one.progress.lower() == state or one.progress == rollout.DELETED
    return state if is_repeated else f"{state} ({one.progress})"
