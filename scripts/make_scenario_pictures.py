"""Makes the pictures of ``docs/simulate-scenarios.md``: ``python scripts/make_scenario_pictures.py [NAME ...]``.

Runs the scenarios of ``examples/scenarios`` with seed 0, as ``pilothouse simulate NAME.yaml --plot`` does, and writes
a picture of each into ``docs/images/scenarios``; and the picture of a comparison.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pilothouse.simulate.recording import Recording
from pilothouse.simulate.report import comparison_svg, svg
from pilothouse.simulate.run import run
from pilothouse.simulate.scenario import Scenario, load
from pilothouse.simulate.variants import variants_of

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ROOT / "examples" / "scenarios"
IMAGES = ROOT / "docs" / "images" / "scenarios"
COMPARED = ("zone-outage", "manager.flags.node-monitor-grace-period=20s,40s,2m", range(1, 6))
"""Scenario, what is varied, seeds."""


def main(names: Sequence[str]) -> None:
    """Make the pictures of these scenarios, or all."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for path in sorted(SCENARIOS.glob("*.yaml")):
        if not names or path.stem in names:
            _write(path.stem, svg(_recorded(load(str(path)), 0)))
    if not names or "comparison" in names:
        name, varied, seeds = COMPARED
        recordings = []
        for variant in variants_of([varied]):
            scenario = load(str(SCENARIOS / f"{name}.yaml"), overrides=variant.overrides)
            for seed in seeds:
                recordings.append(msgspec.structs.replace(_recorded(scenario, seed), variant=variant.title))
        _write("comparison", comparison_svg(recordings))


def _recorded(scenario: Scenario, seed: int) -> Recording:
    recording = run(scenario, seed, record=True).recording
    assert recording is not None, "it was asked for"
    return recording


def _write(name: str, picture: str) -> None:
    path = IMAGES / f"{name}.svg"
    path.write_text(picture, encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
