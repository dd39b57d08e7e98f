"""Jobs."""

from pilothouse.apiserver.registry.batch.jobs.strategy import JobStrategy
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.batch.jobs import printers as job_printers


REGISTRATION = Registration(
    JobStrategy(),
    printer=lambda: job_printers.PRINTER,
)
