"""The Go scheduler's figures are read from the document that tells them, as they stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.go_figure import UNKNOWN, Table, for_nodes, for_queues, read_table

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


def test_a_document_without_the_table_is_named(tmp_path: Path) -> None:
    document = tmp_path / "kai.md"
    document.write_text("# Nothing here\n")
    with pytest.raises(ValueError, match=r"kai\.md: there is no table"):
        read_table(document)
