"""Figures in pages: what was measured is kept in `docs/benchmarks.json`, and pages show it.

`python -m benchmarks --write` puts each report's table between the lines `<!-- figures: NAME -->` and
`<!-- end of figures -->` of any page, NAME being the benchmark's. Sections that follow from several reports, and the
chart, are made from the file, also by `python -m benchmarks.page`, which measures nothing.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.calibration import loop_ms
from benchmarks.carry import DERIVED
from benchmarks.chart import draw
from benchmarks.report import Report

ROOT = Path(__file__).resolve().parents[1]
FIGURES, CHART = Path("docs/benchmarks.json"), Path("docs/benchmarks.svg")
SECTION = re.compile(r"(<!-- figures: (?P<name>[\w/ -]+) -->\n)(?P<text>.*?)(<!-- end of figures -->)", re.S)

Measured = Mapping[str, Any]  #: by benchmark: its rows, and where and when they were measured


def write(reports: Mapping[str, Report], root: Path = ROOT) -> None:
    """Keeps these reports, and renews all pages that show figures."""
    kept = read(root)
    machine = _machine()
    for name, report in reports.items():
        kept[name] = {**report.as_json(), "measured": machine}
    (root / FIGURES).write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    texts = {name: f"{report.as_markdown()}\n{about(machine)}\n" for name, report in reports.items()}
    renew(texts, root)


def read(root: Path = ROOT) -> dict[str, Any]:
    """All that was measured and kept."""
    file = root / FIGURES
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def renew(texts: Mapping[str, str], root: Path = ROOT) -> None:
    """Renews sections of these names, and all that follow from what is kept."""
    kept = read(root)
    texts = {**texts, **derived(kept)}
    for page in _pages(root):
        before = page.read_text()
        after = replace_sections(before, texts)
        if after != before:
            page.write_text(after)
    if "cycle" in kept:
        (root / CHART).write_text(chart(kept))


def derived(kept: Measured) -> dict[str, str]:
    """Sections that follow from what is kept: those of which all reports are there."""
    made: Iterable[tuple[str, Callable[[Measured], str | None]]] = DERIVED.items()
    found = {name: make(kept) for name, make in made}
    return {name: text for name, text in found.items() if text is not None}


def chart(kept: Measured) -> str:
    return draw(kept["cycle"]["rows"], f"measured {kept['cycle']['measured']['date']} by make bench; Go's: perf/kai.md")


def replace_sections(page: str, texts: Mapping[str, str]) -> str:
    """The page with other texts in the sections that have these names."""

    def section(found: re.Match[str]) -> str:
        return f"{found[1]}{texts.get(found['name'], found['text'])}{found[4]}"

    return SECTION.sub(section, page)


def about(machine: Measured) -> str:
    """Where and when it was measured, in a line."""
    return (
        f"Measured {machine['date']}: {machine['cores']} cores of {machine['processor']}, "
        f"Python {machine['python']}; the calibration loop took {machine['calibration_ms']:.1f} ms there."
    )


def _machine() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "calibration_ms": round(loop_ms(), 2),
    }


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.+)$", described.read_text(), re.M) if described.is_file() else None
    return found[1] if found else platform.processor() or platform.machine()


def _pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


if __name__ == "__main__":
    renew({})
