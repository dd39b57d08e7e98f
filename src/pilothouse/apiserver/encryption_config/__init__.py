"""``--encryption-provider-config``: which resources are encrypted at rest, with which providers (apiserver
``pkg/server/options/encryptionconfig``, v0.36).

    types       the types of an ``EncryptionConfiguration``
    validation  validates it
    config      loads a file, and creates the providers of ``storage.encryption``
    controller  reloads the file when it changes
    opened      combines these for a running server
"""
