"""Whether a namespace lacks its account. Pure. Upstream: v1.36
``pkg/controller/serviceaccount/serviceaccounts_controller.go``."""

from typing import Any

from pilothouse.api.core import Namespace, ServiceAccount

DEFAULT = "default"


def lacks_account(namespace: Namespace | None, account: ServiceAccount | None) -> bool:
    """Whether the account is to be made. A namespace that goes, or is not known yet, gets nothing."""
    return namespace is not None and namespace.status.phase == "Active" and account is None


def new_account(namespace: str) -> dict[str, Any]:
    """The account as it is sent: a name, and no opinion about anything."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT, "namespace": namespace}}
