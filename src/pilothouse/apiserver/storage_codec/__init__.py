"""How kube-apiserver stores objects in etcd: keys, storage versions, protobuf envelopes.

This server stores an object as JSON under ``<group>/<resource>/[<namespace>/]<name>``; kube-apiserver v1.36 stores it
as the protobuf message of its storage version, or as JSON, under ``/registry/<prefix>/[<namespace>/]<name>``. ``keys``
and ``codec`` convert between both, ``older_versions`` converts what releases since v1.20 have written. The codec is
independent of the source of the bytes: it is used by the store on etcd and the reader of etcd snapshots.
"""

from pilothouse.apiserver.storage_codec.codec import CodecError, ObjectCodec
from pilothouse.apiserver.storage_codec.keys import KeyLayout, location_of, resource_of, ttl_seconds

__all__ = ["CodecError", "KeyLayout", "ObjectCodec", "location_of", "resource_of", "ttl_seconds"]
