"""Issues certificates for approved requests for the built-in signers.

``kubernetes.io/kubelet-serving`` for serving certificates of kubelets, ``…/kube-apiserver-client-kubelet`` for their
client certificates, ``…/kube-apiserver-client`` for other clients, ``…/legacy-unknown`` for any usage.

Behaviour: an approved request is signed by the CA of its signer, for the requested duration up to
``--cluster-signing-duration``. A request that its signer must not sign gets the condition Failed with the reason. No
request is signed that was not approved: the write has the resourceVersion that was read, so a request that was changed
in the meantime is a conflict. CA files are reloaded when they change.

Not guaranteed: that a key of an authority is worth anything more than the access to its file. Keys are in no log, event
or metric.

docs/controllers/certificatesigningrequest_signing.md has where it differs from upstream.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import DURATION, STRING
from pilothouse.runtime.descriptor import Descriptor, FlagSpec
from pilothouse.runtime.watches import Watch

if TYPE_CHECKING:
    from pilothouse.serving.certificates import Pair

YEAR = 8760 * 3600.0


class SigningOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one CA for all signers, or CAs of single signers, which disable the others. Duration in seconds."""

    cert_file: str = ""
    key_file: str = ""
    duration: float = YEAR
    kubelet_serving_cert_file: str = ""
    kubelet_serving_key_file: str = ""
    kubelet_client_cert_file: str = ""
    kubelet_client_key_file: str = ""
    kube_apiserver_client_cert_file: str = ""
    kube_apiserver_client_key_file: str = ""
    legacy_unknown_cert_file: str = ""
    legacy_unknown_key_file: str = ""
    pair: "Pair | None" = None
    """The CA of all signers if no file is set: the CA of an embedded server."""

    def own_files(self) -> Mapping[str, tuple[str, str]]:
        """The files of each signer, by the signer's name in flags."""
        return {
            "kubelet-serving": (self.kubelet_serving_cert_file, self.kubelet_serving_key_file),
            "kubelet-client": (self.kubelet_client_cert_file, self.kubelet_client_key_file),
            "kube-apiserver-client": (self.kube_apiserver_client_cert_file, self.kube_apiserver_client_key_file),
            "legacy-unknown": (self.legacy_unknown_cert_file, self.legacy_unknown_key_file),
        }

    @property
    def has_own_files(self) -> bool:
        """Whether a signer has files of its own."""
        return any(certificate or key for certificate, key in self.own_files().values())

    @property
    def can_sign(self) -> bool:
        return bool(self.cert_file and self.key_file) or self.has_own_files or self.pair is not None

    def validate(self) -> list[str]:
        """Files that cannot be combined (v1.36 ``cmd/kube-controller-manager/app/options/csrsigningcontroller.go``)."""
        errors = []
        for signer, (certificate, key) in self.own_files().items():
            if certificate and not key:
                errors.append(f'"cluster-signing-{signer}": cannot specify cert without key')
            if key and not certificate:
                errors.append(f'"cluster-signing-{signer}": cannot specify key without cert')
        if self.has_own_files and (self.cert_file or self.key_file):
            errors.append(
                "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same "
                "time"
            )
        return errors


def _file(field: str, name: str, text: str) -> FlagSpec:
    return flag_spec(field, name, STRING, "", text)


_ALL = "If specified, no more specific --cluster-signing-* flag may be specified."

DESCRIPTOR = Descriptor(
    name="certificatesigningrequest-signing-controller",
    aliases=("csrsigning",),
    client_name="certificate-controller",
    options=SigningOptions,
    switch="can_sign",
    flags=(
        _file(
            "cert_file",
            "cluster-signing-cert-file",
            f"Filename containing a PEM-encoded X509 CA certificate used to issue cluster-scoped certificates. {_ALL}",
        ),
        flag_spec(
            "duration",
            "cluster-signing-duration",
            DURATION,
            YEAR,
            "The max length of duration signed certificates will be given.",
        ),
        _file(
            "key_file",
            "cluster-signing-key-file",
            "Filename containing a PEM-encoded RSA or ECDSA private key used to sign cluster-scoped certificates. "
            f"{_ALL}",
        ),
        *(
            _file(f"{words}_{kind}_file", f"cluster-signing-{words.replace('_', '-')}-{kind}-file", text)
            for words, signer in (
                ("kube_apiserver_client", "kube-apiserver-client"),
                ("kubelet_client", "kube-apiserver-client-kubelet"),
                ("kubelet_serving", "kubelet-serving"),
                ("legacy_unknown", "legacy-unknown"),
            )
            for kind, text in (
                ("cert", f"CA certificate of the kubernetes.io/{signer} signer"),
                ("key", f"CA key of the kubernetes.io/{signer} signer"),
            )
        ),
    ),
    watches=(Watch(kind=CERTIFICATE_SIGNING_REQUESTS, keep_raw=True),),
    package=__name__,
)
