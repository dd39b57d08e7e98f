"""The controller manager, the program: options, leader election, shared informers, controllers, its secure port.

``flags`` parses the command line into ``options``, ``selection`` determines which controllers run, ``manager`` runs
them, ``secure_port`` serves, with delegated authentication and authorization (``delegation``), ``identities`` creates
the clients of controllers, ``app`` is the process.
"""
