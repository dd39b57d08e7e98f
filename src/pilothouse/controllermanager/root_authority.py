"""The cluster's CA and keys, for controllers whose flags specify no file.

Controllers that publish the CA get that of the program's own connection. Upstream only uses inline data of the
kubeconfig; here also a file in the kubeconfig, or that of a service account. ``app`` calls this with the connection,
``cli.up`` with the server's own CA, which then also signs certificates, and with the server's token signer.
"""

from typing import TYPE_CHECKING

import msgspec

from pilothouse.client.tls import TlsSettings
from pilothouse.controllermanager.options import Options
from pilothouse.controllers.identity.certificatesigningrequest_signing import DESCRIPTOR as SIGNING
from pilothouse.controllers.identity.certificatesigningrequest_signing import SigningOptions
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher import (
    DESCRIPTOR as TRUST_BUNDLE,
)
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher import TrustBundleOptions
from pilothouse.controllers.identity.root_ca_certificate_publisher import DESCRIPTOR as PUBLISHER
from pilothouse.controllers.identity.root_ca_certificate_publisher import RootCaOptions
from pilothouse.controllers.identity.serviceaccount_token import DESCRIPTOR as TOKENS
from pilothouse.controllers.identity.serviceaccount_token import TokenOptions
from pilothouse.env.bounded_files import read_bytes

if TYPE_CHECKING:
    from pilothouse.machinery.jws import Signer
    from pilothouse.serving.certificates import Pair


def with_ca_bundle(options: Options, bundle: bytes) -> Options:
    """The options, with this CA bundle (PEM) for controllers that publish it or store it with tokens."""
    chosen = dict(options.controller_options)
    for name, otherwise in (
        (PUBLISHER.name, RootCaOptions()),
        (TRUST_BUNDLE.name, TrustBundleOptions()),
        (TOKENS.name, TokenOptions()),
    ):
        chosen[name] = msgspec.structs.replace(chosen.get(name) or otherwise, authority=bundle.decode())
    return msgspec.structs.replace(options, controller_options=chosen)


def with_signing_ca(options: Options, pair: "Pair") -> Options:
    """The options, with this CA for the certificate signers. It stays in memory."""
    chosen = options.controller_options.get(SIGNING.name) or SigningOptions()
    detail = msgspec.structs.replace(chosen, pair=pair)
    return msgspec.structs.replace(options, controller_options={**options.controller_options, SIGNING.name: detail})


def with_signer(options: Options, signer: "Signer") -> Options:
    """The options, with the API server's signer for the token controller."""
    chosen = options.controller_options.get(TOKENS.name) or TokenOptions()
    detail = msgspec.structs.replace(chosen, signer=signer)
    return msgspec.structs.replace(options, controller_options={**options.controller_options, TOKENS.name: detail})


def ca_bundle_of(tls: TlsSettings) -> bytes:
    """The CA bundle of a connection; empty if it uses the system's. The file is known to be readable."""
    if tls.ca_data or not tls.ca_file:
        return tls.ca_data
    return read_bytes(tls.ca_file)
