"""Validation of a write: metadata and object, in upstream's order.

After apiserver's ``pkg/registry/rest/{create,update}.go`` (v0.36). Some kinds repeat a step, so that the ``causes`` of
an error list a field repeatedly; the steps of each kind are declared in its strategy (``Step``).
"""

from collections.abc import Callable, Sequence

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic import object_meta
from pilothouse.apiserver.registry.generic.strategy import Step, Strategy

Validate = Callable[[Object, Object], ErrorList]
"""The errors in the part of an object that a subresource writes: (object, old)."""


def validate_create(strategy: Strategy, obj: Object) -> ErrorList:
    """The errors in a new object (``BeforeCreate``)."""
    meta: Object = obj["metadata"]
    validated_by_kind = "object meta" in strategy.create_steps
    errors: ErrorList = []
    if validated_by_kind:
        errors_of_meta = object_meta.validate_object_meta(
            meta,
            strategy.name_errors(obj),
            kube_finalizers=strategy.kube_finalizers,
            generate_name=strategy.validates_generate_name,
        )
    for step in strategy.create_steps:
        if step == "object meta":
            errors += errors_of_meta
        elif step == "object":
            errors += strategy.validate(obj)
        else:
            errors += strategy.validate_additional(obj)
    return errors or object_meta.validate_common(meta, validated_by_kind=validated_by_kind)


def validate_update(
    strategy: Strategy, obj: Object, old: Object, steps: Sequence[Step], validate: Validate
) -> ErrorList:
    """The errors in an update (``BeforeUpdate``). ``validate`` is called for the step "update"."""
    meta = object_meta.validate_update(
        obj["metadata"], old["metadata"], strategy.name_errors(obj), kube_finalizers=strategy.kube_finalizers
    )
    errors = [*meta.common_object_meta, *meta.common_update]
    for step in steps:
        if step == "object meta":
            errors += meta.object_meta
        elif step == "object meta update":
            errors += meta.update
        elif step == "object":
            errors += strategy.validate_object_on_update(obj, old)
        elif step == "additional":
            errors += strategy.validate_additional(obj)
        else:
            errors += validate(obj, old)
    return errors
