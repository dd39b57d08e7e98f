"""Health responses equal kube-controller-manager's (apiserver library ``healthz.go``, v0.36)."""

from pilothouse.controllermanager.health import Health


def health(**checks: str | None) -> Health:
    made = Health()
    for name, reason in checks.items():
        made.add(name, lambda reason=reason: reason)  # type: ignore[misc]  # bound at once
    return made


def test_healthy_response_is_ok() -> None:
    assert health(a=None).report("healthz").text == "ok"


def test_verbose_lists_every_check_in_order() -> None:
    assert health(b=None, a=None).report("healthz", verbose=True).text == "[+]b ok\n[+]a ok\nhealthz check passed\n"


def test_failure_is_verbose_and_withholds_the_reason() -> None:
    report = health(a=None, b="disk is full").report("readyz")
    assert not report.healthy
    assert report.text == "[+]a ok\n[-]b failed: reason withheld\nreadyz check failed\n"
    assert report.failures == {"b": "disk is full"}


def test_excluded_checks_are_not_run() -> None:
    report = health(a="bad").report("healthz", verbose=True, exclude=["a"])
    assert report.healthy
    assert report.text == "[+]a excluded: ok\nhealthz check passed\n"


def test_unknown_exclusions_are_reported() -> None:
    text = health(a=None).report("healthz", verbose=True, exclude=["x", "y"]).text
    assert (
        text == '[+]a ok\nwarn: some health checks cannot be excluded: no matches for "x", "y"\nhealthz check passed\n'
    )


def test_ping_check_is_default() -> None:
    assert Health().report("healthz", verbose=True).text == "[+]ping ok\nhealthz check passed\n"


def test_check_can_be_removed() -> None:
    checks = health(a="bad", b=None)
    checks.remove("a")
    checks.remove("never there")
    assert checks.report("healthz").healthy
