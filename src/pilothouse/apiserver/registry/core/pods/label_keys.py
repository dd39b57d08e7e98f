"""``matchLabelKeys`` and ``mismatchLabelKeys`` of affinity terms and topology spread constraints.

After ``ValidateMatchLabelKeysAndMismatchLabelKeys`` in kubernetes' ``pkg/apis/core/validation/validation.go`` and
``applyMatchLabelKeysAndMismatchLabelKeys`` in ``pkg/registry/core/pod/strategy.go`` (v1.36).
"""

from collections.abc import Iterator, Sequence

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.names import qualified_name_errors

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def merge_label_keys(pod: Object) -> None:
    """Add the values of the pod's labels to the label selectors. Called for pods, not for templates, before
    validation."""
    labels = pod["metadata"].get("labels") or {}
    for term in _terms(pod["spec"]):
        selector = term.get("labelSelector")
        if selector is None:
            continue
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            expressions = [
                {"key": key, "operator": operator, "values": [labels[key]]}
                for key in term.get(field) or ()
                if key in labels
            ]
            if expressions:
                selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *expressions]


def _terms(spec: Object) -> Iterator[Object]:
    affinity = spec.get("affinity") or {}
    for field in ("podAffinity", "podAntiAffinity"):
        pod_affinity = affinity.get(field) or {}
        yield from pod_affinity.get(_REQUIRED) or ()
        for weighted_term in pod_affinity.get(_PREFERRED) or ():
            yield weighted_term.get("podAffinityTerm") or {}
    yield from spec.get("topologySpreadConstraints") or ()


def validate_label_keys(term: Object, path: str) -> ErrorList:
    if "matchLabelKeys" not in term and "mismatchLabelKeys" not in term:
        return []
    match_label_keys: Sequence[str] = term.get("matchLabelKeys") or ()
    mismatch_label_keys: Sequence[str] = term.get("mismatchLabelKeys") or ()
    selector: Object | None = term.get("labelSelector")
    errors: ErrorList = []
    for field, keys in (("matchLabelKeys", match_label_keys), ("mismatchLabelKeys", mismatch_label_keys)):
        if keys and selector is None:
            errors.append(forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set"))
            continue
        errors += [
            invalid(f"{path}.{field}[{position}]", key, msg)
            for position, key in enumerate(keys)
            for msg in qualified_name_errors(key)
        ]
    # Merged expressions come last, so a key that occurs twice was in the selector before.
    label_keys = set((selector or {}).get("matchLabels") or ())
    for expression in (selector or {}).get("matchExpressions") or ():
        key = expression.get("key") or ""
        if key in match_label_keys and key in label_keys:
            position = max(index for index, match_label_key in enumerate(match_label_keys) if match_label_key == key)
            errors.append(invalid(f"{path}[{position}]", key, "exists in both matchLabelKeys and labelSelector"))
        label_keys.add(key)
    detail = "exists in both matchLabelKeys and mismatchLabelKeys"
    return errors + [
        invalid(f"{path}.matchLabelKeys[{position}]", key, detail)
        for position, key in enumerate(match_label_keys)
        if key in mismatch_label_keys
    ]
