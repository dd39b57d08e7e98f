"""What the root CA publisher publishes when no file is named: the authority by which this program knows its server.

Upstream takes only what the kubeconfig carries inline; a file that it names, or that of a service account, counts here
too. ``app`` calls this with the connection, ``cli.up`` with the server's own authority.
"""

from pathlib import Path

import msgspec

from pilothouse.client.tls import TlsSettings
from pilothouse.controllermanager.options import Options
from pilothouse.controllers.identity.root_ca_certificate_publisher import DESCRIPTOR, RootCaOptions


def with_authority(options: Options, bundle: bytes) -> Options:
    """The options, with the publisher told of this bundle (PEM)."""
    chosen = options.controller_options.get(DESCRIPTOR.name) or RootCaOptions()
    told = msgspec.structs.replace(chosen, authority=bundle.decode())
    return msgspec.structs.replace(options, controller_options={**options.controller_options, DESCRIPTOR.name: told})


def bundle_of(tls: TlsSettings) -> bytes:
    """The authorities of a connection; nothing if it goes by those of the system. The file is known to be readable."""
    if tls.ca_data or not tls.ca_file:
        return tls.ca_data
    return Path(tls.ca_file).read_bytes()
