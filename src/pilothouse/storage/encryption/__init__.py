"""Encryption at rest, as kube-apiserver has it (apiserver ``pkg/storage/value``, v0.36): what a store writes is
encrypted by the first provider of its resource, and what it reads is decrypted by any of them.

    transformer  what a provider does; several of them by the prefix of what they have written
    identity     does nothing, and refuses what is encrypted
    aes          aescbc, aesgcm, and AES-GCM with a key of its own for each value
    secretbox    XSalsa20 and Poly1305
    kmsv2        envelopes, whose keys another program encrypts
    at_rest      the providers of all resources, for a store
    metrics      upstream's families

Nothing here knows of files: the configuration is read by ``apiserver.encryption_config``. What is encrypted is bound to
its key in etcd by all providers but aescbc and secretbox.
"""
