"""How kube-apiserver keeps objects in etcd: keys, storage versions, protobuf envelopes.

This server holds an object as JSON under ``<group>/<resource>/[<namespace>/]<name>``; kube-apiserver v1.36 holds it as
the protobuf message of its storage version, or as JSON, under ``/registry/<prefix>/[<namespace>/]<name>``. ``keys`` and
``codec`` go both ways between the two, ``older_versions`` reads what releases since v1.20 have written. Nothing here
knows where the bytes are: a store on etcd and the reader of an etcd snapshot use the same codec.
"""

from pilothouse.apiserver.storage_codec.codec import CodecError, ObjectCodec
from pilothouse.apiserver.storage_codec.keys import KeyLayout, location_of, resource_of, seconds_kept

__all__ = ["CodecError", "KeyLayout", "ObjectCodec", "location_of", "resource_of", "seconds_kept"]
