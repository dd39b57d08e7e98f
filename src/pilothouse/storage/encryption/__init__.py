"""Encryption at rest, as in kube-apiserver (apiserver ``pkg/storage/value``, v0.36): values are encrypted by the first
provider of their resource, and decrypted by any of its providers.

    transformer  what a provider does; several of them by the prefix of what they have written
    identity     does nothing, and refuses what is encrypted
    aes          aescbc, aesgcm, and AES-GCM with a key of its own for each value
    secretbox    XSalsa20 and Poly1305
    kmsv2        envelopes, whose keys another program encrypts
    at_rest      the providers of all resources, for a store
    metrics      upstream's families

Nothing here reads files: ``apiserver.encryption_config`` reads the configuration. All providers except aescbc and
secretbox authenticate the key in etcd together with the value.
"""
