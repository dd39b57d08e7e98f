"""The pods of a Job: its template with the finalizer, and for an index the words that tell the pod which it is.

Worked out once per generation. Read by ``controller``, and its selector for every pod without owner by ``pod_events``.
"""

from typing import Any

import msgspec

from pilothouse.api.batch import Job
from pilothouse.controllers.shared import blueprints as shared
from pilothouse.controllers.workloads.job import TRACKING
from pilothouse.controllers.workloads.job.decide import is_indexed
from pilothouse.controllers.workloads.job.indexes import INDEX
from pilothouse.env import Log
from pilothouse.machinery.labels import Selector

_VARIABLE = "JOB_COMPLETION_INDEX"


class Blueprint(msgspec.Struct, frozen=True):
    """What stays the same between two changes of a spec. Without a ``selector`` the Job is left alone."""

    uid: str
    generation: int
    selector: Selector | None
    name: str
    template: bytes
    """With the finalizer, and of an indexed Job the environment variable."""

    def of_index(self, index: int, annotations: dict[str, str]) -> bytes:
        whole: dict[str, Any] = msgspec.json.decode(self.template)
        meta = whole["metadata"]
        said = {INDEX: str(index)}
        meta["annotations"] = {**(meta.get("annotations") or {}), **said, **annotations}
        meta["labels"] = {**(meta.get("labels") or {}), **said}
        whole["spec"]["hostname"] = f"{self.name}-{index}"
        return msgspec.json.encode(whole)


class Blueprints(shared.Blueprints[Job, Blueprint]):
    """The blueprints of all Jobs that were asked for."""

    def __init__(self, log: Log) -> None:
        super().__init__("Job", lambda job: job.spec.selector, _draw, log)


def _draw(job: Job, selector: Selector | None, _before: Blueprint | None) -> Blueprint:
    whole: dict[str, Any] = msgspec.json.decode(job.spec.template)
    meta = whole.setdefault("metadata", {})
    finalizers = meta.get("finalizers") or []
    if TRACKING not in finalizers:
        meta["finalizers"] = [*finalizers, TRACKING]
    if is_indexed(job):
        path = f"metadata.labels['{INDEX}']"
        for kind in ("initContainers", "containers"):
            for container in whole.get("spec", {}).get(kind) or []:
                variables = container.get("env") or []
                if all(variable.get("name") != _VARIABLE for variable in variables):
                    source = {"fieldRef": {"fieldPath": path}}
                    container["env"] = [*variables, {"name": _VARIABLE, "valueFrom": source}]
    meta_job = job.metadata
    return Blueprint(meta_job.uid, meta_job.generation, selector, meta_job.name, msgspec.json.encode(whole))
