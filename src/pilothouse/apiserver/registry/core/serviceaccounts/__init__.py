"""ServiceAccounts."""

from collections.abc import Iterable, Iterator

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy

_ENFORCE_MOUNTABLE_SECRETS = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccountStrategy(Strategy):
    """Only the names of ``secrets`` are stored (``cleanSecretReferences``,
    pkg/registry/core/serviceaccount/strategy.go, v1.36)."""

    return_deleted_object = True
    update_steps = ("object meta update", "object meta")

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return _warnings_for_annotations(obj)

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        is_known = _ENFORCE_MOUNTABLE_SECRETS in (old["metadata"].get("annotations") or ())
        return () if is_known else _warnings_for_annotations(obj)

    def prepare_for_create(self, obj: Object, now: str) -> None:
        _clean_secret_references(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        _clean_secret_references(obj)


def _warnings_for_annotations(account: Object) -> Iterator[str]:
    if _ENFORCE_MOUNTABLE_SECRETS in (account["metadata"].get("annotations") or ()):
        message = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        yield f"metadata.annotations[{_ENFORCE_MOUNTABLE_SECRETS}]: {message}"


def _clean_secret_references(account: Object) -> None:
    if account.get("secrets"):
        account["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in account["secrets"]]


REGISTRATION = Registration(
    ServiceAccountStrategy(),
)
