"""The outputs of ``pilothouse simulate``: ``text``, ``documents`` (JSON), ``junit`` for CI systems, ``recordings`` and
``reports``, with ``replay`` commands."""
