"""The root CA of ``--root-ca-file``, published in every namespace and in token Secrets. Upstream: ``readCA`` of v1.36
``cmd/kube-controller-manager/app/certificates.go``.
"""

from pilothouse.env.bounded_files import read_text
from pilothouse.machinery.flags import STRING, Flag
from pilothouse.machinery.go_text import open_error
from pilothouse.runtime.errors import CannotRun

ROOT_CA_FLAG = Flag(
    "root-ca-file",
    STRING,
    "",
    "If set, this root certificate authority will be included in service account's token secret. This must "
    "be a valid PEM-encoded CA bundle.",
)


def read_authority(file: str, otherwise: str) -> str:
    """The certificates of the file, or ``otherwise`` if no file is configured. Raises ``CannotRun``."""
    if not file:
        return otherwise
    try:
        text = read_text(file)
    except OSError as error:
        raise CannotRun(f"error parsing root-ca-file at {file}: {open_error(file, error)}") from error
    except UnicodeDecodeError as error:
        raise CannotRun(f"error parsing root-ca-file at {file}: {error}") from error
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise CannotRun(
            f"error parsing root-ca-file at {file}: data does not contain any valid RSA or ECDSA certificates"
        )
    return text
