"""Encryption at rest, as in kube-apiserver (apiserver ``pkg/storage/value``, v0.36): values are encrypted by the first
provider of their resource, and decrypted by any of its providers.

    transformer  the interface of providers; the choice among several by prefix
    identity     no encryption; rejects encrypted values
    aes          aescbc, aesgcm, and AES-GCM with a derived key for each value
    secretbox    XSalsa20 and Poly1305
    kmsv2        envelope encryption with a KMS plugin
    at_rest      the providers of all resources, for a store
    metrics      upstream's metrics

Nothing here reads files: ``apiserver.encryption_config`` reads the configuration. All providers except aescbc and
secretbox authenticate the key in etcd together with the value.
"""
