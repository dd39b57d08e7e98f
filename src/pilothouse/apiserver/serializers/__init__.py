"""Request and response bodies in the negotiated format.

The core responds in JSON. The modules here are functions of its responses: ``negotiation`` chooses the format,
``partial_metadata`` and ``protobuf`` convert, ``presenter`` combines them. None of them reads storage.
"""
