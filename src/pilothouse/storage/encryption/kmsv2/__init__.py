"""Envelope encryption with a plugin of the KMS v2 API (apiserver ``pkg/storage/value/encrypt/envelope/kmsv2``, v0.36).

    plugin    what is asked of a plugin
    service   a plugin at the other end of a unix socket, over gRPC
    envelope  values with their key beside them, which only the plugin can decrypt
    state     what is written with now
    probe     asks the plugin how it is, and makes a new seed when its key has changed
    messages  protobuf messages, of the plugin and of what is stored

Only ``service`` needs the extra ``pilothouse[etcd]``.
"""
