"""Figures get into pages from what was measured, and what the repository shows is what it keeps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import __main__ as command
from benchmarks import page
from benchmarks.carry import DERIVED, api_server, one_scheduler, shards, summary
from benchmarks.chart import draw
from benchmarks.report import Column, Report, number

MACHINE = {"date": "2026-11-18", "processor": "a processor", "cores": 2, "python": "3.11.7", "calibration_ms": 12.0}


def row(workload: str, nodes: int, total_ms: float, go_text: str = "", go_ms: float | None = None) -> dict[str, Any]:
    return {
        "workload": workload,
        "nodes": nodes,
        "pods": 8 * nodes,
        "total_ms": total_ms,
        "peak_rss_mb": 50 + nodes / 10,
        "go_text": go_text,
        "go_ms": go_ms,
        "times_less": None if go_ms is None else go_ms / total_ms,
    }


CYCLE = {
    "rows": [
        row("fill", 1000, 200, "16,000–19,000", 16_000),
        row("fill", 5000, 1000, "~500,000", 500_000),
        row("small", 1000, 400, "20,000", 20_000),
        row("small", 5000, 2000),
        row("mixed, 2,000 jobs", 2000, 4000),
        row("mixed, 2,000 jobs", 5000, 4000),
    ],
    "measured": MACHINE,
}
IDLE = {"rows": [{"cycle": "one pod ended", "cpu_ms": 2.5}, {"cycle": "nothing changed", "cpu_ms": 0.01}]}
SCALE = {
    "rows": [],
    "details": [
        {
            "title": "Processes on the control plane: 4,000 Jobs while they are submitted",
            "rows": [
                {"process": "kube-apiserver", "cpu_ms_per_job": 50.0, "writes_per_job": None},
                {"process": "etcd", "cpu_ms_per_job": 10.0, "writes_per_job": None},
                {"process": "scheduler", "cpu_ms_per_job": 6.0, "writes_per_job": 2.0},
                {"process": "all our services", "cpu_ms_per_job": 20.0, "writes_per_job": 7.0},
            ],
        }
    ],
}


def cells(table: str | None) -> list[list[str]]:
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]


def report() -> Report:
    made = Report("Speed", (Column("name", "name"), Column("ms", "CPU", number(1, " ms"))))
    made.rows.append({"name": "fast", "ms": 1.25})
    made.notes.append("It was fast.")
    made.details.append(Report("More", (Column("n", "n"),), rows=[{"n": "one"}]))
    return made


def test_a_report_is_tables_and_notes_in_markdown() -> None:
    assert report().as_markdown() == (
        "| name | CPU |\n| --- | --: |\n| fast | 1.2 ms |\n\nIt was fast.\n\nMore:\n\n| n |\n| --- |\n| one |\n"
    )


def test_a_page_tells_what_is_not_as_promised() -> None:
    made = Report("Speed", (Column("name", "name"),), rows=[{"name": "slow"}], broken=["it is slow", "and large"])
    assert made.as_markdown() == "| name |\n| --- |\n| slow |\n\nNot as promised:\n\n- it is slow\n- and large\n"


def test_figures_that_were_measured_stand_in_their_section_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    shown = tmp_path / "docs" / "some.md"
    shown.write_text(
        "Before\n<!-- figures: speed -->\nold\n<!-- end of figures -->\nBetween\n"
        "<!-- figures: other -->\nstays\n<!-- end of figures -->\nAfter\n"
    )
    (tmp_path / "README.md").write_text("nothing here\n")
    page.write({"speed": report()}, tmp_path)
    text = shown.read_text()
    assert "old" not in text
    assert "Before\n<!-- figures: speed -->\n| name | CPU |\n" in text
    assert "\nMeasured 20" in text
    assert "Between\n<!-- figures: other -->\nstays\n<!-- end of figures -->\nAfter\n" in text
    assert json.loads((tmp_path / page.FIGURES).read_text())["speed"]["rows"] == [{"name": "fast", "ms": 1.25}]


def test_a_run_of_one_benchmark_keeps_the_figures_of_others(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("")
    page.write({"speed": report()}, tmp_path)
    page.write({"other": report()}, tmp_path)
    assert set(page.read(tmp_path)) == {"speed", "other"}


def test_the_summary_has_what_go_was_measured_at_not_what_was_estimated() -> None:
    assert cells(summary({"cycle": CYCLE}))[2:] == [
        ["fill", "1,000", "8,000", "200 ms", "16.0 s", "80"],
        ["small", "1,000", "8,000", "400 ms", "20.0 s", "50"],
    ]


def test_what_one_scheduler_carries_is_of_the_largest_sizes() -> None:
    found = cells(one_scheduler({"cycle": CYCLE, "idle": IDLE}))
    assert ["gangs of 8 fill the cluster", "5,000", "40,000", "1.0 s of CPU: 40,000 pods a second"] in found
    assert ["one pod ended", "5,000", "40,000", "2.50 ms of CPU: 400 a second"] in found
    assert ["nothing changed", "5,000", "40,000", "0.01 ms of CPU"] in found


def test_shards_divide_the_fleet_and_what_was_not_measured_is_marked() -> None:
    found = {line[0]: line for line in cells(shards({"cycle": CYCLE}))[2:]}
    assert found["1"][1:5] == ["12,500", "100,000", "~2.5 s", "~5.0 s"]
    assert found["5"][1:6] == ["2,500", "20,000", "500 ms", "1.0 s", "4.0 s"]
    assert found["10"][5] == "~4.0 s", "smaller than any size of that workload"


def test_the_control_plane_pays_by_pods_a_second() -> None:
    text = api_server({"scale": SCALE})
    assert text is not None
    assert "the control plane 60 ms of CPU and our services 20.0 ms, with 7.0 writes" in text
    by_life = {line[0]: line[1:] for line in cells(text)[2:]}
    assert by_life["an hour, 1 GPU"] == ["27.8", "194", "1.7", "0.6"]
    assert by_life["an hour, 8 GPUs"] == ["3.5", "24", "0.2", "0.1"]


def test_sections_whose_figures_are_missing_are_left_alone() -> None:
    assert set(page.derived({})) == set()
    assert set(page.derived({"cycle": CYCLE})) == {"summary", "shards"}


def test_the_chart_has_both_curves_and_no_estimates() -> None:
    drawn = draw(CYCLE["rows"], "of today")  # type: ignore[arg-type]
    root = ElementTree.fromstring(drawn)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "fill" in texts
    assert "80 ×" in texts, "beside each other at the largest size that Go was measured at"
    classes = [element.get("class") for element in root.iter("{http://www.w3.org/2000/svg}circle")]
    assert classes.count("ours-point") == 4 + 1, "two sizes of each workload with a panel, and the legend"
    assert classes.count("go-point") == 2 + 1
    assert "prefers-color-scheme: dark" in drawn


def test_pages_and_chart_show_what_is_kept() -> None:
    """Whoever changes figures by hand, or the code that draws them, has to run `python -m benchmarks.page`."""
    kept = page.read()
    assert (page.ROOT / page.CHART).read_text() == page.chart(kept)
    texts = page.derived(kept)
    assert set(texts) >= {"summary", "one scheduler", "shards"}
    for file in (page.ROOT / "README.md", *(page.ROOT / "docs").glob("*.md")):
        assert page.replace_sections(file.read_text(), texts) == file.read_text(), file.name


def test_every_section_names_a_benchmark_or_what_follows_from_some() -> None:
    known = {*command.BENCHMARKS, *DERIVED}
    for file in (page.ROOT / "README.md", *(page.ROOT / "docs").glob("*.md")):
        text = file.read_text()
        names = re.findall(r"<!-- figures: (.+?) -->", text)
        assert set(names) <= known, file.name
        assert len(names) == len(page.SECTION.findall(text)) == text.count("<!-- end of figures -->"), file.name


def test_pages_show_all_workloads_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "cycle", "--only", "fill", "--write"])
    with pytest.raises(SystemExit) as refused:
        command.main()
    assert refused.value.code == 2
