"""A trace is replayed in virtual time: who starts when, under which policy."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bosket.cli.main import main
from bosket.tools.simulate.document import InvalidDocument
from bosket.tools.simulate.trace.chart import draw
from bosket.tools.simulate.trace.cluster import ClusterShape
from bosket.tools.simulate.trace.figures import figures
from bosket.tools.simulate.trace.job import TraceJob, between, read_trace, with_limits
from bosket.tools.simulate.trace.policy import Policy, configuration_of
from bosket.tools.simulate.trace.run import Outcome, replay

HOUR = 3600.0
#: Name: (arrival in hours, duration in hours, GPUs). The large gang waits for the first job, the small one needn't.
JOBS = {"first": (0.0, 10.0, 8), "large": (1.0, 5.0, 16), "small": (2.0, 20.0, 8)}
TRACE = """timestamp,duration,num_gpus,cluster
2017-09-04 10:30:41,7200.0,8,a
2017-09-04 09:30:41,3600,1,b
"""


def job(name: str, arrival: float, duration: float, gpus: int, cluster: str = "all") -> TraceJob:
    return TraceJob(name, arrival * HOUR, duration * HOUR, gpus, cluster)


def outcome_of(policy: Policy, shape: ClusterShape, jobs: dict[str, tuple[float, float, int]]) -> Outcome:
    listed = [job(name, *each) for name, each in jobs.items()]
    return replay(listed, shape, configuration_of(policy))


def starts(outcome: Outcome) -> dict[str, float]:
    return {run.job.name: run.started / HOUR for run in outcome.runs}


def test_greedy_lets_small_jobs_pass_a_gang_that_waits() -> None:
    assert starts(outcome_of("greedy", ClusterShape(16), JOBS)) == {"first": 0, "small": 2, "large": 22}


def test_in_strict_order_nobody_passes_an_older_job() -> None:
    assert starts(outcome_of("fifo", ClusterShape(16), JOBS)) == {"first": 0, "large": 10, "small": 15}


def test_a_gang_takes_whole_nodes_and_one_pod_has_the_rest() -> None:
    (run,) = outcome_of("greedy", ClusterShape(24), {"gang": (0.0, 1.0, 12)}).runs
    assert len(run.nodes) == 2


def test_with_one_node_gpus_are_all_that_counts() -> None:
    scattered = {"a": (0.0, 9.0, 5), "b": (0.0, 9.0, 5), "c": (1.0, 1.0, 6)}
    assert starts(outcome_of("greedy", ClusterShape(16, 8), scattered))["c"] == 9
    assert starts(outcome_of("greedy", ClusterShape(16, 16), scattered))["c"] == 1


def test_a_gang_that_fits_into_a_rack_waits_until_one_rack_has_room() -> None:
    jobs = {"a": (0.0, 4.0, 16), "b": (0.0, 9.0, 8), "c": (0.5, 8.0, 8), "gang": (1.0, 1.0, 16)}
    anywhere = starts(outcome_of("greedy", ClusterShape(40), jobs))
    in_a_rack = starts(outcome_of("greedy", ClusterShape(40, rack_size=2), jobs))
    assert anywhere["gang"] == 4
    assert in_a_rack["gang"] >= 4


def test_a_preemptible_job_that_passes_a_gang_is_evicted_and_starts_anew() -> None:
    jobs = [job(name, *each) for name, each in {"first": (0, 10, 8), "large": (1, 5, 16), "small": (2, 20, 8)}.items()]
    arguments = {"largeGPUs": "16", "after": "0s", "preemptible": "evict"}
    found = replay(with_limits(jobs, 1.0, 0), ClusterShape(16), configuration_of("backfill", arguments))
    assert starts(found) == {"first": 0, "large": 10, "small": 15}
    assert (found.evicted, found.lost_gpu_seconds, found.delayed_reservations) == (1, 8 * 8 * HOUR, 0)


def test_what_can_never_start_is_left_over_and_holds_up_nobody() -> None:
    outcome = outcome_of("greedy", ClusterShape(8), {"huge": (0.0, 1.0, 16), "small": (1.0, 1.0, 8)})
    assert [each.name for each in outcome.never_started] == ["huge"]
    assert starts(outcome) == {"small": 1}


def test_clusters_with_quotas_share_by_them() -> None:
    jobs = [job(f"a{n}", n / 100, 100, 8, "a") for n in range(4)] + [job(f"b{n}", n / 100, 1, 8, "b") for n in range(4)]
    jobs.sort(key=lambda each: (each.arrival, each.name))
    shape = ClusterShape(24, quotas={"b": 16.0})
    begun = {run.job.name: run.started / HOUR for run in replay(jobs, shape, configuration_of("greedy")).runs}
    assert begun["b2"] < begun["a2"]


def test_figures_are_sums_over_the_jobs() -> None:
    found = figures(outcome_of("fifo", ClusterShape(16), JOBS), policy="fifo", gpus=16, cpu_seconds=1.0)
    assert found.makespan_hours == 35
    assert found.use == round((10 * 8 + 5 * 16 + 20 * 8) / (16 * 35), 4)
    assert found.wait_hours["all"].mean == round((0 + 9 + 13) / 3, 2)
    assert (found.wait_hours["lt8"].n, found.wait_hours["lt8"].mean) == (0, None)


def test_a_trace_is_read_in_order_of_arrival() -> None:
    jobs = read_trace(TRACE)
    assert [(each.gpus, each.cluster, each.duration_seconds) for each in jobs] == [(1, "b", 3600), (8, "a", 7200)]
    assert [each.cluster for each in read_trace(TRACE, ["a"])] == ["a"]
    assert [each.cluster for each in between(jobs, None, 0.02)] == ["b"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("when,what\n", "the first line must name the columns timestamp, duration, num_gpus; timestamp is missing"),
        ("timestamp,duration,num_gpus\nyesterday,1,1\n", "line 2: timestamp is 'yesterday'"),
        ("timestamp,duration,num_gpus\n2017-09-04,-1,1\n", "line 2: duration is '-1', it must be 0 or more"),
        ("timestamp,duration,num_gpus\n2017-09-04,1,1.5\n", "line 2: num_gpus is '1.5', it must be a whole number"),
        ("timestamp,duration,num_gpus\n2017-09-04,1\n", "line 2: num_gpus is None, it must be a number"),
    ],
)
def test_what_is_wrong_in_a_trace_is_named(text: str, complaint: str) -> None:
    with pytest.raises(InvalidDocument, match="^" + complaint.replace("(", r"\(")):
        read_trace(text)


def test_the_chart_is_svg_with_a_line_for_each_cluster() -> None:
    chart = draw(outcome_of("greedy", ClusterShape(16), JOBS), title="3 jobs & more", gpus=16)
    texts = [each.text for each in ElementTree.fromstring(chart).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "3 jobs & more"
    assert "all" in texts


def test_the_command_prints_one_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, chart = tmp_path / "trace.csv", tmp_path / "waits.svg"
    file.write_text(TRACE)
    assert main(["simulate", "trace", str(file), "--gpus", "8", "--chart", str(chart), "--json"]) == 0
    answer = msgspec.json.decode(capsys.readouterr().out)
    assert (answer["policy"], answer["jobs"], answer["wait_hours"]["all"]["n"]) == ("greedy", 2, 2)
    assert chart.read_text().startswith("<svg")


def test_a_cluster_that_the_trace_does_not_have_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)
    assert main(["simulate", "trace", str(file), "--gpus", "8", "--cluster", "c"]) == 2
    assert "no job is of cluster 'c'; there are a, b" in capsys.readouterr().err
