"""The page at ``/ui``: the current or a past state of the cluster in a browser, read-only.

``Page`` is an ASGI application for one API server, on whose port it is served (``ServedApiServer.mount``). ``sessions``
and ``origins`` authenticate requests, ``files`` has the static files. Data are sent as rows, not as objects: ``rows``
computes them from stored objects, ``live`` keeps them up to date while ``stream`` is read, and ``past`` computes those
of an earlier revision. ``programs`` samples controllers and scheduler. ``objects`` reads one object, ``search`` finds
objects.

While no page is open, only the controllers are sampled, each second. Long work is split into slices (``slices``), so
that the API server is not blocked.
"""

from pilothouse.env.lazy import lazy_exports

with lazy_exports():
    from pilothouse.ui.page import PATH, Page

__all__ = ["PATH", "Page"]
