"""The strategy of Jobs. After kubernetes' ``pkg/registry/batch/job/strategy.go`` (v1.36)."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.batch.jobs.labels import PREFIX, default_labels, labels_of
from pilothouse.apiserver.registry.core.pods.disabled_fields import GATES, drop_disabled_template_fields
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.batch.jobs import defaults, validation, warnings
    from pilothouse.apiserver.registry.core.pods import warnings as pod_warnings


class JobStrategy(Strategy):
    """``batch/v1`` Jobs. Selector and pod labels are generated, unless ``manualSelector`` is set."""

    orphans_by_default = True
    delete_warning = (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
        "set propagationPolicy=Orphan to suppress this warning"
    )
    generation_fields = ("spec",)
    disabled_gates = GATES
    update_steps = ("object meta", "object", "object meta update", "update")
    selectable = {"status.successful": ("status", "succeeded")}  # read only
    selectable_defaults = {"status.successful": "0"}  # read only

    def set_defaults(self, obj: Object) -> None:
        defaults.set_defaults_job(obj)

    def defaulted_when_read(self, obj: Object) -> bool:
        return labels_of(obj) == labels_of(obj["spec"]["template"])

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        old_template = None if old is None else old["spec"]["template"]
        drop_disabled_template_fields(obj["spec"]["template"], old_template, self.disabled_gates)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        yield from pod_warnings.warnings_for_name(obj["metadata"]["name"])
        yield from warnings.warnings_for_job_spec(obj["spec"], "spec")

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return warnings.warnings_for_job_spec(obj["spec"], "spec") if self.increments_generation(obj, old) else ()

    def prepare_for_create(self, obj: Object, now: str) -> None:
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        template_meta = ensure_object(spec["template"], "metadata")
        labels: dict[str, str] = {**(template_meta.get("labels") or {})}
        for prefix in ("", PREFIX):
            # A label set by the client is kept, and rejected by validation.
            labels.setdefault(prefix + "job-name", meta.get("name") or "")
            labels.setdefault(prefix + "controller-uid", meta["uid"])
        if "labels" in meta and meta["labels"] is template_meta.get("labels"):
            meta["labels"] = dict(labels)  # by default they have the same (``default_labels``)
        template_meta["labels"] = labels
        selector = ensure_object(spec, "selector")
        match_labels = {**(selector.get("matchLabels") or {})}
        match_labels.setdefault(PREFIX + "controller-uid", meta["uid"])
        selector["matchLabels"] = match_labels

    def canonicalize(self, obj: Object) -> None:
        super().canonicalize(obj)
        # Upstream defaults the stored object again when it is read; the template has its generated labels then.
        default_labels(obj)

    def validate(self, obj: Object) -> ErrorList:
        return validation.validate_job(obj)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return validation.validate_job_on_update(obj, old)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validation.validate_job_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return validation.validate_job_status_update(obj, old)

    def unsupported_field(self, path: str) -> str:
        return f'field label "{path}" not supported for Job'
