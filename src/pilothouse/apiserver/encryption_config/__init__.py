"""``--encryption-provider-config``: what is encrypted at rest, and with what (apiserver
``pkg/server/options/encryptionconfig``, v0.36).

    types       an ``EncryptionConfiguration`` as it stands in a file
    validation  what is wrong with one
    config      reads a file, and makes the providers of ``storage.encryption``
    controller  reads it again when it has changed
    opened      all of it, for one server

What a provider does to a value stands in ``storage.encryption``.
"""
