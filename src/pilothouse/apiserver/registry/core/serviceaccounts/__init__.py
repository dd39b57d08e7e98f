"""ServiceAccounts."""

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy


class ServiceAccountStrategy(Strategy):
    """Secrets are referred to by name (pkg/registry/core/serviceaccount/strategy.go, v1.36)."""

    return_deleted_object = True
    update_steps = ("object meta update", "object meta")

    def prepare_for_create(self, obj: Object, now: str) -> None:
        _keep_names(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        _keep_names(obj)


def _keep_names(account: Object) -> None:
    if account.get("secrets"):
        account["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in account["secrets"]]


REGISTRATION = Registration(
    ServiceAccountStrategy(),
)
