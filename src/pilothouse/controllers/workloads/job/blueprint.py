"""The template of a Job's pods: with the finalizer, and for an index with its labels. Computed once per generation."""

from typing import Any

import msgspec

from pilothouse.api.batch import Job
from pilothouse.controllers.workloads.job import TRACKING
from pilothouse.controllers.workloads.job.decide import is_indexed
from pilothouse.controllers.workloads.job.indexes import INDEX
from pilothouse.machinery.labels import Selector

_VARIABLE = "JOB_COMPLETION_INDEX"


class Blueprint(msgspec.Struct, frozen=True):
    """Without a ``selector`` the Job is not synced."""

    selector: Selector | None
    name: str
    template: bytes
    """With the finalizer, and of an indexed Job the environment variable."""

    def of_index(self, index: int, annotations: dict[str, str]) -> bytes:
        template: dict[str, Any] = msgspec.json.decode(self.template)
        meta = template["metadata"]
        annotations_of_template = {INDEX: str(index)}
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations_of_template, **annotations}
        meta["labels"] = {**(meta.get("labels") or {}), **annotations_of_template}
        template["spec"]["hostname"] = f"{self.name}-{index}"
        return msgspec.json.encode(template)


def draw(job: Job, selector: Selector | None, _old: Blueprint | None) -> Blueprint:
    """The blueprint of a Job."""
    template: dict[str, Any] = msgspec.json.decode(job.spec.template)
    meta = template.setdefault("metadata", {})
    finalizers = meta.get("finalizers") or []
    if TRACKING not in finalizers:
        meta["finalizers"] = [*finalizers, TRACKING]
    if is_indexed(job):
        path = f"metadata.labels['{INDEX}']"
        for kind in ("initContainers", "containers"):
            for container in template.get("spec", {}).get(kind) or []:
                variables = container.get("env") or []
                if all(variable.get("name") != _VARIABLE for variable in variables):
                    source = {"fieldRef": {"fieldPath": path}}
                    container["env"] = [*variables, {"name": _VARIABLE, "valueFrom": source}]
    return Blueprint(selector, job.metadata.name, msgspec.json.encode(template))
