"""The plugin's fixtures, also where pilothouse is on the path but not installed; and the example operator."""

from tests.operator.conftest import _import_path, example

from pilothouse.testing.plugin import pilothouse, pilothouse_async, pilothouse_server, pytest_configure

__all__ = ["_import_path", "example", "pilothouse", "pilothouse_async", "pilothouse_server", "pytest_configure"]
