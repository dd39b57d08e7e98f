"""The registry: what is known of each built-in kind, declared once.

``registry/GROUP/RESOURCE`` mirrors kubernetes' ``pkg/registry/GROUP/RESOURCE`` and ``pkg/apis/GROUP``. Its
``REGISTRATION`` says which strategy, printer and storage prefix the kind has; handlers, discovery and printing ask it
and know no kind by name. What stands behind every kind alike is in ``generic``.
"""

from functools import cache
from importlib import import_module

from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.resources import built_in


@cache
def registration_of(group: str, resource: str) -> Registration:
    """The declaration of a built-in resource, loaded when first asked for; one for all servers, it keeps nothing.

    The group's first label is the package, ``core`` where the group has no name: ``rbac.authorization.k8s.io`` and
    ``roles`` are found in ``registry.rbac.roles``. What is not an object (reviews, bindings) declares nothing.
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
