"""Envelope encryption with a plugin of the KMS v2 API (apiserver ``pkg/storage/value/encrypt/envelope/kmsv2``, v0.36).

    plugin    the interface of a plugin
    service   a plugin on a unix socket, with gRPC
    envelope  values stored with their encrypted key
    state     the seed of the values that are written
    probe     status checks of the plugin; creates a new seed when its key has changed
    messages  protobuf messages, of the plugin and of stored values

Only ``service`` needs the extra ``pilothouse[etcd]``.
"""
