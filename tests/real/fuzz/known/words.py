"""What is said in other words, of the same fields and for the same reasons."""

from tests.real.fuzz.known.rows import Row, anyone, cause, said

_RANGE = r".*\.ipBlock\.(cidr|except\[\d+\])"

WORDS: tuple[Row, ...] = (
    Row(
        "words about options of requests",
        {
            "v1.22": "unreadable selectors, and fields that can't be selected by",
            "v1.24": "406 lists what could be had",
            "v1.26": "another line of code is named where a kind is none of apiextensions.k8s.io",
            "v1.32": "a `fieldManager` that is too long or not printable",
        },
        applies=anyone(
            said("unable to parse requirement|field label|field selector", "unable to parse requirement|field label"),
            said("^406: Not Acceptable$", "^406: Not Acceptable\n\nAvailable", "message"),
            said(r"apiserver\.go:52", r"apiserver\.go:56", "message"),
            said("must have at most|invalid character", "may not be more than|printable", "fieldManager"),
        ),
    ),
    Row(
        "words about values",
        {
            "v1.25": "the name of a port has a letter, before it said that a number would do, too",
            "v1.27": "what is no label because it has dots is told so",
            "v1.30": "what is no range of addresses, or no address of an alias or name server",
            "v1.32": "texts may not be longer than a number of bytes, before they had to have at most so many",
            "v1.34": "what is missing in a certificate request, or in the service of a webhook",
            "v1.35": "labels and keys have lengths in bytes, not characters",
        },
        causes=anyone(
            cause(".*", "at least one letter or number", "at least one letter"),
            cause(".*", "must consist of", "must not contain dots"),
            cause(_RANGE, "", "must be a valid CIDR value"),
            cause(_RANGE, "not a valid CIDR"),
            cause(r".*\.hostAliases(\[\d+\])?\.ip|spec\.podCIDRs\[\d+\]|.*\.dnsConfig\.nameservers\[\d+\]"),
            cause(".*", "must have at most", "may not be more than"),
            cause(r"spec\.(signerName|usages)|.*\.service\.name(space)?", "Required value: ", "Required value'"),
            cause(".*", "must be no more than 63 characters", "must be no more than 63 bytes"),
        ),
    ),
)
