"""A store on etcd, in the layout of its codec: for the API server, kube-apiserver's own.

    options      the flags
    client       gRPC: ranges, transactions, watches, leases, compaction
    messages     etcd's protobuf messages
    store        ``EtcdStore``: stages like every store, and commits with transactions
    transactions what one transaction writes, and what became of it
    follower     the one watch that feeds the store
    leases       for keys that expire
    compaction   upstream's, with its key

Needs the extra ``pilothouse[etcd]``; nothing but ``options`` may be imported without it.
"""
