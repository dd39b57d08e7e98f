"""``docs/bugs.md``, from the declarations: ``python -m pilothouse.simulate.bugs.documentation > docs/bugs.md``."""

import sys
from collections.abc import Iterator

from pilothouse.simulate.bugs.catalogue import BUGS
from pilothouse.simulate.bugs.declaration import Bug, link_of

_HEAD = """# Known bugs

<!-- Written by `python -m pilothouse.simulate.bugs.documentation`; a test keeps it up to date. -->

{bugs} bugs that Kubernetes' controllers had or still have, in {scenarios} scenarios. Each scenario runs on the
simulated cluster in virtual time, twice: with the guard, which is the check that prevents the bug in pilothouse, and
without it. The second run must fail with the failure that the scenario declares.

```console
$ pilothouse bugs list                              # all of them
$ pilothouse bugs run 129795                        # with the guard: the bug must not happen
$ pilothouse bugs run 129795 --unguarded            # without the guard: prints the failure, its cause, and the log
$ pilothouse bugs run --all                         # everything, both ways; exit code 1 if a result is unexpected
$ pilothouse bugs run 129795 --unguarded -o json
$ pilothouse bugs run 54096 --unguarded --report bug.html   # as an HTML page with charts
```

`pilothouse bugs run NAME --scenario TEXT` runs the scenarios whose name begins with TEXT, `--seed N` another order of
events. A guard is disabled for one run by replacing a function of the controller, or by an option.

The patterns are:

* *stale state*: the controller acts on an old state of the cluster, for example because a watch lags;
* *intermediate state*: it stops between two writes, and the next process does not continue correctly;
* *unobserved state*: it never sees a change, because no event was delivered for it;
* *time*: a result depends on the clock, a timeout or a schedule;
* *collision*: two objects have the same name or hash;
* *logic or limits*: a wrong decision, or work without a bound.

The first three are those of Sieve (Sun et al., "Automatic Reliability Testing for Cluster Management Controllers", OSDI
2022).

| Bug | Controller | Pattern | What happens | Upstream |
|---|---|---|---|---|
"""


def page() -> str:
    """The page."""
    lines = [_HEAD.format(bugs=len(BUGS), scenarios=sum(len(bug.scenarios) for bug in BUGS)).rstrip()]
    lines += [_row(bug) for bug in BUGS]
    for bug in BUGS:
        lines += ["", *_section(bug)]
    return "\n".join(lines) + "\n"


def _row(bug: Bug) -> str:
    patterns = ", ".join(pattern.value for pattern in bug.patterns)
    anchor = f"{bug.id} {bug.title}".lower()
    anchor = "".join(character for character in anchor if character.isalnum() or character in "_- ").replace(" ", "-")
    return f"| [{bug.number}](#{anchor}) | {bug.controller} | {patterns} | {bug.title} | {bug.upstream} |"


def _section(bug: Bug) -> Iterator[str]:
    yield f"## {bug.id} {bug.title}"
    yield ""
    yield "Issues: " + ", ".join(f"[{thread}]({link_of(thread)})" for thread in bug.threads) + "."
    yield ""
    yield f"**Cause.** {bug.mechanism}"
    yield ""
    yield f"**Guard.** {bug.protection}"
    if bug.limits:
        yield ""
        yield f"**In a simulation.** {bug.limits}"
    yield ""
    for scenario in bug.scenarios:
        without = "" if scenario.unguarded is not None else " (with the guard only)"
        yield f"* *{scenario.name}*{without}: {scenario.description}"


if __name__ == "__main__":
    sys.stdout.write(page())
