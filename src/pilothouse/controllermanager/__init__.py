"""The controller manager, the program: options, leader election, shared informers, controllers, its secure port.

``options`` reads flags, ``selection`` says which controllers run, ``manager`` runs them, ``serving`` and ``delegation``
are the secure port and who may read it, ``identities`` gives each controller its client, ``app`` puts a process
together.
"""
