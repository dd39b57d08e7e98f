"""The plugin's fixtures, also where pilothouse is on the path but not installed."""

from pilothouse.testing.plugin import pilothouse, pilothouse_async, pilothouse_server, pytest_configure

__all__ = ["pilothouse", "pilothouse_async", "pilothouse_server", "pytest_configure"]
