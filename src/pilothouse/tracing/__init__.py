"""OpenTelemetry traces: a request, its admission, the commit, the watch events, the syncs that follow, and what those
write, as one trace.

``Tracing`` (``provider``) is one program's tracer. ``Env.tracing`` has it, or None, which is what costs nothing: no
module of this package is loaded then, but for ``flags``. Client and controllers are traced by what is here, the API
server by ``apiserver.tracing``.

The SDK and the exporter are an extra: ``pip install 'pilothouse[tracing]'``.
"""
