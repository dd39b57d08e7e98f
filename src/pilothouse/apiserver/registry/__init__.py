"""The registry of built-in kinds.

``registry/GROUP/RESOURCE`` mirrors kubernetes' ``pkg/registry/GROUP/RESOURCE`` and ``pkg/apis/GROUP``. Its
``REGISTRATION`` has the strategy, printer and storage prefix of the kind; handlers, discovery and printing use it and
have no code for particular kinds. Code for all kinds is in ``generic``.
"""

from functools import cache
from importlib import import_module

from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.resources import built_in


@cache
def registration_of(group: str, resource: str) -> Registration:
    """The registration of a built-in resource, imported on first use. It has no state and is shared by all servers.

    The package is the first label of the group, ``core`` for the core group: ``roles`` of ``rbac.authorization.k8s.io``
    are in ``registry.rbac.roles``. Resources that are not stored (reviews, bindings) have no module and get an empty
    registration.
    """
    package = f"{__name__}.{group.partition('.')[0] or 'core'}"
    name = f"{package}.{resource}"
    try:
        registration: Registration = import_module(name).REGISTRATION
    except ModuleNotFoundError as error:
        if error.name not in (package, name):
            raise
        registration = Registration(Strategy())
    strategy = registration.strategy
    strategy.has_status = strategy.has_status or any(
        info.resource == resource and info.group == group and "status" in info.subresources for info in built_in()
    )
    return registration
