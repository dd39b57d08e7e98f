"""OpenTelemetry traces: a request, its admission, the commit, the watch events, the syncs that they trigger, and the
writes of those, as one trace.

``Tracing`` (``provider``) is one program's tracer. It is in ``Env.tracing``, or None without tracing: then no module of
this package but ``flags`` is imported. Client and controllers are traced by this package, the API server by
``apiserver.tracing``.

The SDK and the exporter are an extra: ``pip install 'pilothouse[tracing]'``.
"""
