"""The printer of CertificateSigningRequests. After kubernetes' ``pkg/printers/internalversion/printers.go``
(v1.36).
"""

import datetime

from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    human_duration,
    nested_field,
)


def print_certificate_signing_request(value: Doc, now: Now) -> Row:
    spec, status = nested_field(value, "spec") or {}, nested_field(value, "status") or {}
    kinds = [c.get("type") for c in status.get("conditions") or ()]
    condition = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    if "Failed" in kinds:
        condition += ",Failed"
    if status.get("certificate"):
        condition += ",Issued"
    duration = NONE
    if spec.get("expirationSeconds") is not None:
        duration = human_duration(datetime.timedelta(seconds=spec["expirationSeconds"]))
    return [
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        duration,
        condition,
    ]


PRINTER = Printer(
    (NAME, AGE, *columns("SignerName", "Requestor", "RequestedDuration", "Condition")),
    print_certificate_signing_request,
)
