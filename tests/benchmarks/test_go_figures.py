"""The Go scheduler's figures are read from the document that tells them, as they stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.go_figure import UNKNOWN, Table, for_nodes, for_queues, read_figures, read_table

DOCUMENT = """# Title
| another | N=100 |
|---|---|
| fill | 1 |

## CPU ms of one cycle
| workload | N=100 | N=500 | exponent |
|---|---|---|---|
| fill | 320 | 4,700–5,100 | 1.9 |
| small | 430 | – | 1.7 |
| topology | N=256: 190–315 | N=512: 270 | 0.1–0.5 |
| fair share alone | 14–18 at 1,050 queues | 170–205 at 10,500 queues | |

## Another part
| fill | 9 | 9 | 9 |

## Workloads as they come in practice (by another generator)
| workload | Go, CPU ms | Bosket, CPU ms |
|---|---|---|
| `mixed n=50 pending=200` | > 165,000 | 3,000 |
| `mixed n=100 pending=400` | 52,800 (two actions cut) | 14,100–18,500: reclaim 12,200 |
| `mixed n=2000 pending=2000` | stopped | 31,000 |
| `antiaff n=100` / `n=500` | 1,398 / 37,601 | 232 / 813 |
| openb, 10,800 pods on 1,213 nodes (traces/) | 84,600, 8,099 binds | 3,000 |
| `dra n=100` (a claim for each of 800 pods) | 735–903 | 4,500 |
Beside them, same run: small 100 515 / 64; fairshare 1,000 full cycle 2,031 / 323 (Go / Bosket).
"""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    document = tmp_path / "kai.md"
    document.write_text(DOCUMENT)
    return read_table(document)


def test_a_range_is_shown_as_it_is_and_compared_by_its_low_end(table: Table) -> None:
    assert for_nodes(table, "fill", 100) == ("320", 320)
    assert for_nodes(table, "fill", 500) == ("4,700–5,100", 4700)


def test_what_was_not_measured_there_has_no_figure(table: Table) -> None:
    assert for_nodes(table, "small", 500) == UNKNOWN
    assert for_nodes(table, "fill", 5000) == UNKNOWN
    assert for_nodes(table, "topology", 100) == UNKNOWN, "it is of another number of nodes"
    assert for_nodes(table, "topology", 512) == ("270", 270)
    assert for_nodes(table, "dance", 100) == UNKNOWN


def test_fair_shares_are_found_by_the_number_of_queues(table: Table) -> None:
    assert for_queues(table, 1050) == ("14–18", 14)
    assert for_queues(table, 10_500) == ("170–205", 170)
    assert for_queues(table, 50) == UNKNOWN


def test_sizes_beyond_those_measured_are_estimated_by_the_low_end_of_the_exponent(tmp_path: Path) -> None:
    document = tmp_path / "kai.md"
    document.write_text(DOCUMENT.replace("| exponent |", "| exponent in N |").replace("| 1.9 |", "| 1 → 2.3 |"))
    assert for_nodes(read_table(document), "fill", 1000) == ("~9,400", 9400)


def test_workloads_in_practice_are_found_by_the_generator_s_call(tmp_path: Path) -> None:
    document = tmp_path / "kai.md"
    document.write_text(DOCUMENT)
    go = read_figures(document)
    assert go.cost("", "mixed n=100 pending=400", 100) == ("52,800", 52_800)
    assert go.cost("", "mixed n=50 pending=200", 50) == ("> 165,000", 165_000), "a lower bound"
    assert go.cost("", "mixed n=2000 pending=2000", 2000) == UNKNOWN, "it was stopped"
    assert [go.cost("", f"antiaff n={nodes}", nodes).low for nodes in (100, 500)] == [1398, 37_601]
    assert go.cost("", "dra n=100", 100) == ("735–903", 735)
    assert go.cost("", "openb", 1213).low == 84_600
    assert go.cost("", "fairshare leaves=1000", 100).low == 2031
    assert go.cost("fill", "", 500).low == 4700, "by the number of nodes, where there is no such call"


def test_a_document_without_the_table_is_named(tmp_path: Path) -> None:
    document = tmp_path / "kai.md"
    document.write_text("# Nothing here\n")
    with pytest.raises(ValueError, match=r"kai\.md: there is no table"):
        read_table(document)
