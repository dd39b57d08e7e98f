"""The page at ``/ui``: the cluster in a browser, as it is and as it was. It only reads.

``Page`` is an ASGI application for one API server, beside which it is served (``ServedApiServer.mount``). ``sessions``
and ``origins`` say whose requests are answered, ``files`` has what the browser loads. The data come as rows, not as
objects: ``rows`` makes them of stored objects, ``live`` keeps them up to date while somebody reads ``stream``, and
``past`` makes those of an earlier revision. ``programs`` samples controllers and scheduler. ``objects`` shows one
object, ``search`` finds some.

Nothing runs while no page is open but a sample of the controllers each second. What takes long is done in slices
(``slices``), so that the API server answers in between.
"""

from pilothouse.env.lazy import lazy_exports

with lazy_exports():
    from pilothouse.ui.page import PATH, Page

__all__ = ["PATH", "Page"]
