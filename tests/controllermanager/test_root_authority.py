"""Which controllers get the cluster's CA: by ``--root-ca-file``, and without the flag."""

import datetime

from tests.certificate_requests import authority

from pilothouse.cli.manager import flag_set
from pilothouse.controllermanager.flags import options_from
from pilothouse.controllermanager.options import Options
from pilothouse.controllermanager.root_authority import with_ca_bundle, with_signing_ca
from pilothouse.controllers.identity.certificatesigningrequest_signing import DESCRIPTOR as SIGNING
from pilothouse.controllers.identity.certificatesigningrequest_signing import SigningOptions
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher import (
    DESCRIPTOR as TRUST_BUNDLE,
)
from pilothouse.controllers.identity.root_ca_certificate_publisher import DESCRIPTOR as ROOT_CA
from pilothouse.controllers.registry import DESCRIPTORS

PUBLISHERS = (ROOT_CA.name, TRUST_BUNDLE.name)


def read(*words: str) -> Options:
    flags = flag_set("kube-controller-manager")
    return options_from(flags.parse(words), DESCRIPTORS, flags)


def root_ca_options(options: Options, name: str) -> tuple[str, str]:
    """The options of a publisher: the file, and the CA."""
    result = options.controller_options[name]
    return getattr(result, "root_ca_file"), getattr(result, "authority")  # noqa: B009  # whichever struct it is


def test_root_ca_file_is_used_by_both_publishers() -> None:
    options = read("--root-ca-file=/ca.crt")
    assert [root_ca_options(options, name) for name in PUBLISHERS] == [("/ca.crt", "")] * 2


def test_both_publishers_get_the_connections_ca() -> None:
    options = with_ca_bundle(read("--root-ca-file=/ca.crt"), b"PEM")
    assert [root_ca_options(options, name) for name in PUBLISHERS] == [("/ca.crt", "PEM")] * 2


def test_cluster_signing_flags_reach_the_signers() -> None:
    options = read("--cluster-signing-kubelet-client-cert-file=a", "--cluster-signing-kubelet-client-key-file=b")
    assert options.controller_options[SIGNING.name] == SigningOptions(
        kubelet_client_cert_file="a", kubelet_client_key_file="b"
    )
    chosen = read("--cluster-signing-duration=1h30m").controller_options[SIGNING.name]
    assert isinstance(chosen, SigningOptions)
    assert chosen.duration == 5400.0
    assert not chosen.can_sign, "nothing is signed without an authority"


def test_in_memory_ca_is_used_by_signers_and_hides_its_key() -> None:
    pair = authority(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
    options = with_signing_ca(Options(), pair)
    chosen = options.controller_options[SIGNING.name]
    assert isinstance(chosen, SigningOptions)
    assert chosen.can_sign
    assert pair.key.decode().splitlines()[1] not in repr(options)
