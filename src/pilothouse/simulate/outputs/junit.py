"""The result of a search as JUnit XML: a test suite for each variant, a test case for each seed."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence

from pilothouse.simulate.outputs.replay import Replay
from pilothouse.simulate.outputs.text import failure_lines
from pilothouse.simulate.result import ERRORS
from pilothouse.simulate.search import Finished, ShrunkFailure

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(
    scenario: str,
    finished: Sequence[Finished],
    failures: Sequence[ShrunkFailure],
    replay: Replay,
    variants: Sequence[Sequence[str]],
    *,
    interrupted: str = "",
) -> str:
    """The XML document. Crashes and timeouts of processes are errors, everything else failures. If the command was
    ``interrupted``, so is one more test case that says so: the report is not complete."""
    root = ET.Element("testsuites", name="pilothouse simulate")
    failures_by_job = {(failure.job.variant, failure.job.seed): failure for failure in failures}
    for number, settings in enumerate(variants):
        runs = [run for run in finished if run[0].variant == number]
        name = " ".join([scenario, *settings])
        kinds = [result.failure.kind for _job, result in runs if result.failure is not None]
        errors = sum(kind in ERRORS for kind in kinds)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_text(name),
            tests=str(len(runs)),
            failures=str(len(kinds) - errors),
            errors=str(errors),
            time=f"{sum(result.cpu for _job, result in runs):.3f}",
        )
        for run in runs:
            _case(suite, name, run, failures_by_job.get((number, run[0].seed)), replay, settings)
    if interrupted:
        suite = ET.SubElement(root, "testsuite", name=_text(scenario), tests="1", failures="0", errors="1", time="0")
        case = ET.SubElement(suite, "testcase", classname=_text(scenario), name="interrupted", time="0")
        ET.SubElement(case, "error", type="interrupted", message=interrupted)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(
    suite: ET.Element,
    name: str,
    finished: Finished,
    failure: ShrunkFailure | None,
    replay: Replay,
    settings: Sequence[str],
) -> None:
    _job, result = finished
    case = ET.SubElement(suite, "testcase", classname=_text(name), name=f"seed {result.seed}", time=f"{result.cpu:.3f}")
    properties = ET.SubElement(case, "properties")
    values: Mapping[str, object] = {"virtualSeconds": round(result.seconds, 3), **result.measures}
    for measure, value in values.items():
        ET.SubElement(properties, "property", name=_text(measure), value=str(value))
    if result.failure is None:
        return
    kind = result.failure.kind
    element = ET.SubElement(
        case, "error" if kind in ERRORS else "failure", type=kind, message=_text(result.failure.summary)
    )
    if failure is not None:
        element.text = _text("\n".join(failure_lines(failure, replay, settings)))
    else:
        element.text = _text(f"replay: {replay.command(result.seed, None, settings)}")


def _text(text: str) -> str:
    """Replace characters that XML does not allow."""
    return _FORBIDDEN.sub("\ufffd", text)
