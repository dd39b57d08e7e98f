"""Environment variables of gRPC, which reads them when it is imported."""

import os

# Tests fork while the collector's threads run, and gRPC would warn each time.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
