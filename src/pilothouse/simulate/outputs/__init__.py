"""What ``pilothouse simulate`` prints and writes: ``text`` for people, ``documents`` as JSON, ``junit`` for CI systems,
``recordings`` for reports."""
