"""The messages of etcd's API (v3) that the store uses.

Field numbers and types are those of etcd's ``api/mvccpb/kv.proto`` and ``api/etcdserverpb/rpc.proto`` (v3.4 to v3.6).
The classes are created from this table when the module is imported.
"""

from typing import Any

from pilothouse.storage.message_classes import message_classes

_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "KeyValue": {
        "key": (1, "bytes"),
        "create_revision": (2, "int64"),
        "mod_revision": (3, "int64"),
        "version": (4, "int64"),
        "value": (5, "bytes"),
        "lease": (6, "int64"),
    },
    "Event": {"type": (1, "int32"), "kv": (2, "KeyValue"), "prev_kv": (3, "KeyValue")},
    "ResponseHeader": {
        "cluster_id": (1, "uint64"),
        "member_id": (2, "uint64"),
        "revision": (3, "int64"),
        "raft_term": (4, "uint64"),
    },
    "RangeRequest": {
        "key": (1, "bytes"),
        "range_end": (2, "bytes"),
        "limit": (3, "int64"),
        "revision": (4, "int64"),
        "serializable": (7, "bool"),
        "keys_only": (8, "bool"),
        "count_only": (9, "bool"),
    },
    "RangeResponse": {
        "header": (1, "ResponseHeader"),
        "kvs": (2, "*KeyValue"),
        "more": (3, "bool"),
        "count": (4, "int64"),
    },
    "PutRequest": {"key": (1, "bytes"), "value": (2, "bytes"), "lease": (3, "int64")},
    "PutResponse": {"header": (1, "ResponseHeader")},
    "DeleteRangeRequest": {"key": (1, "bytes"), "range_end": (2, "bytes")},
    "DeleteRangeResponse": {"header": (1, "ResponseHeader"), "deleted": (2, "int64")},
    "RequestOp": {
        "request_range": (1, "?RangeRequest"),
        "request_put": (2, "?PutRequest"),
        "request_delete_range": (3, "?DeleteRangeRequest"),
    },
    "ResponseOp": {
        "response_range": (1, "?RangeResponse"),
        "response_put": (2, "?PutResponse"),
        "response_delete_range": (3, "?DeleteRangeResponse"),
    },
    "Compare": {
        "result": (1, "int32"),
        "target": (2, "int32"),
        "key": (3, "bytes"),
        "version": (4, "?int64"),
        "create_revision": (5, "?int64"),
        "mod_revision": (6, "?int64"),
    },
    "TxnRequest": {"compare": (1, "*Compare"), "success": (2, "*RequestOp"), "failure": (3, "*RequestOp")},
    "TxnResponse": {"header": (1, "ResponseHeader"), "succeeded": (2, "bool"), "responses": (3, "*ResponseOp")},
    "CompactionRequest": {"revision": (1, "int64"), "physical": (2, "bool")},
    "CompactionResponse": {"header": (1, "ResponseHeader")},
    "WatchCreateRequest": {
        "key": (1, "bytes"),
        "range_end": (2, "bytes"),
        "start_revision": (3, "int64"),
        "progress_notify": (4, "bool"),
        "prev_kv": (6, "bool"),
        "watch_id": (7, "int64"),
        "fragment": (8, "bool"),
    },
    "WatchProgressRequest": {},
    "WatchRequest": {
        "create_request": (1, "?WatchCreateRequest"),
        "progress_request": (3, "?WatchProgressRequest"),
    },
    "WatchResponse": {
        "header": (1, "ResponseHeader"),
        "watch_id": (2, "int64"),
        "created": (3, "bool"),
        "canceled": (4, "bool"),
        "compact_revision": (5, "int64"),
        "cancel_reason": (6, "string"),
        "fragment": (7, "bool"),
        "events": (11, "*Event"),
    },
    "LeaseGrantRequest": {"TTL": (1, "int64"), "ID": (2, "int64")},
    "LeaseGrantResponse": {"header": (1, "ResponseHeader"), "ID": (2, "int64"), "TTL": (3, "int64")},
    "StatusRequest": {},
    "StatusResponse": {"header": (1, "ResponseHeader"), "version": (2, "string"), "dbSize": (3, "int64")},
}
EQUAL = 0
VERSION, MODIFIED = 0, 2
"""The target of a ``Compare``: the version (number of writes) or the mod revision of the key."""
PUT, DELETE = 0, 1
"""Types of events."""


_CLASSES = message_classes("pilothouse.etcd", _MESSAGES)
Compare = _CLASSES["Compare"]
CompactionRequest, CompactionResponse = _CLASSES["CompactionRequest"], _CLASSES["CompactionResponse"]
DeleteRangeRequest = _CLASSES["DeleteRangeRequest"]
LeaseGrantRequest, LeaseGrantResponse = _CLASSES["LeaseGrantRequest"], _CLASSES["LeaseGrantResponse"]
PutRequest = _CLASSES["PutRequest"]
RangeRequest, RangeResponse = _CLASSES["RangeRequest"], _CLASSES["RangeResponse"]
RequestOp = _CLASSES["RequestOp"]
StatusRequest, StatusResponse = _CLASSES["StatusRequest"], _CLASSES["StatusResponse"]
TxnRequest, TxnResponse = _CLASSES["TxnRequest"], _CLASSES["TxnResponse"]
WatchCreateRequest, WatchProgressRequest = _CLASSES["WatchCreateRequest"], _CLASSES["WatchProgressRequest"]
WatchRequest, WatchResponse = _CLASSES["WatchRequest"], _CLASSES["WatchResponse"]


def range_end(prefix: bytes) -> bytes:
    """The end of the range of keys with this prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def equal_version(key: bytes, version: int) -> Any:
    """A comparison: the key has been written this many times since its creation."""
    return Compare(result=EQUAL, target=VERSION, key=key, version=version)


def unchanged(key: bytes, revision: int) -> Any:
    """A comparison: ``revision`` is the mod revision of the key; 0: the key does not exist."""
    return Compare(result=EQUAL, target=MODIFIED, key=key, mod_revision=revision)


def get(key: bytes) -> Any:
    """An operation of a transaction: read one key."""
    return RequestOp(request_range=RangeRequest(key=key))


def put(key: bytes, value: bytes, lease: int = 0) -> Any:
    """An operation of a transaction: write one key."""
    return RequestOp(request_put=PutRequest(key=key, value=value, lease=lease))


def delete(key: bytes) -> Any:
    """An operation of a transaction: delete one key."""
    return RequestOp(request_delete_range=DeleteRangeRequest(key=key))
