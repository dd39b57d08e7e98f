"""What callers see: bodies in the form they asked for, and the documents that describe the server.

The core answers in JSON. The modules here are functions over such answers: ``negotiation`` decides what was asked for,
``partial``, ``tables`` and ``protobuf`` change the form, ``presenter`` puts them together; ``discovery``, ``openapi``,
``health`` and ``version`` make the documents outside the resources. None of them reads storage.
"""
