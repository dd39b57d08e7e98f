"""Services."""

from pilothouse.apiserver.registry.core.services.strategy import ServiceStrategy
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.core.services import printers as service_printers


REGISTRATION = Registration(
    ServiceStrategy(),
    printer=lambda: service_printers.PRINTER,
    etcd_prefix="services/specs",
)
