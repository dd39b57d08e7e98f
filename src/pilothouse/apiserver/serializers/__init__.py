"""Request and response bodies in the format that the client asks for.

The core answers in JSON. The modules here are functions over such answers: ``negotiation`` decides what was asked for,
``partial_metadata`` and ``protobuf`` change the format, ``presenter`` puts them together. None of them reads storage.
"""
