"""The programs of a plane in a process of their own, so that they use a second core.

The process of the API server starts the other one, and both exchange frames over a Unix socket: requests and responses,
and the events of watches, each of which is sent once, however many watches it belongs to. HTTP and TLS would cost more
than the requests themselves. ``RemotePrograms`` is the API server's end, ``ServerConnection`` that of the programs.
"""
