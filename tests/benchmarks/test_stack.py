"""The benchmark of the whole stack: who wrote what, and how it is shown beside the Go stack's figures."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.audit import AuditLog, Write
from benchmarks.go_figure import STACK_HEADING, read_results
from benchmarks.stack_cluster import SERVICES
from benchmarks.stack_report import report
from benchmarks.stack_run import Measured

BINDING = Write("bosket-binder", "create", "pods/binding", refused=False)


def line(user: str, verb: str, resource: str, subresource: str = "", code: int = 201) -> str:
    about = {"resource": resource, "subresource": subresource}
    said = {"verb": verb, "user": {"username": user}, "objectRef": about, "responseStatus": {"code": code}}
    return json.dumps(said) + "\n"


def test_writes_are_counted_from_where_one_began(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    log = AuditLog(file)
    log.skip()
    file.write_text(line("bosket-binder", "create", "pods", "binding"))
    log.skip()
    with file.open("a") as more:
        more.write(2 * line("bosket-binder", "create", "pods", "binding"))
        more.write(line("kwok", "patch", "pods", "status", code=422))
        more.write('{"verb": "cre')  # being written
    assert log.count() == Counter({BINDING: 2, Write("kwok", "patch", "pods/status", refused=True): 1})
    assert log.count() == Counter()


def measured(pods_per_second: float) -> Measured:
    names = ("kube-apiserver", *SERVICES)
    return Measured(
        jobs=1000,
        gang=512,
        seconds={"while": 1000 / pods_per_second, "gang": 12.0, "unschedulable": 1.5, "reclaim 1": 0.5},
        cpu_s=dict.fromkeys(names, 1.0),
        memory_mib=dict.fromkeys(names, 50.0),
        writes=Counter({BINDING: 1000}),
        counted={"binder": 1000},
    )


@pytest.mark.parametrize(("rate", "broken"), [(40.0, []), (20.0, ["20.0 pods a second are less than 30"])])
def test_figures_stand_beside_those_of_the_go_stack(rate: float, broken: list[str]) -> None:
    made = report(measured(rate), measured(90.0), {"one gang of 512": "101–172 s, most of it conflicts"})
    rows = {row["what"]: row for row in made.rows}
    assert (rows["one gang of 512"]["real"], rows["one gang of 512"]["go"]) == ("12.0 s", "101–172 s")
    assert rows["writes of our services per Job"]["real"] == "1.00"
    assert made.broken == broken
    assert "1.00 by our services" in made.details[1].notes[0]


def test_the_go_stacks_figures_are_read_from_their_table(tmp_path: Path) -> None:
    document = tmp_path / "kai.md"
    document.write_text(
        "## The Go stack end to end, measured\ntext\n| what | result |\n|---|---|\n| one job | 0.4 s |\n"
    )
    assert read_results(document, STACK_HEADING) == {"one job": "0.4 s"}
    document.write_text("nothing")
    with pytest.raises(ValueError, match="there is no table"):
        read_results(document, STACK_HEADING)
