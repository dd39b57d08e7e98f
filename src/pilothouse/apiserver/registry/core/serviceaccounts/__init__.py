"""ServiceAccounts."""

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy


class ServiceAccountStrategy(Strategy):
    """Only the names of ``secrets`` are stored (``cleanSecretReferences``,
    pkg/registry/core/serviceaccount/strategy.go, v1.36)."""

    return_deleted_object = True
    update_steps = ("object meta update", "object meta")

    def prepare_for_create(self, obj: Object, now: str) -> None:
        _clean_secret_references(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        _clean_secret_references(obj)


def _clean_secret_references(account: Object) -> None:
    if account.get("secrets"):
        account["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in account["secrets"]]


REGISTRATION = Registration(
    ServiceAccountStrategy(),
)
