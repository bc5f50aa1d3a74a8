"""Whether anything has become slower: small workloads in CPU time, as ratios to a calibration loop of the same run.

`make bench-check` compares them with the ratios in `check.json` and fails beyond 1.5 times. The loop runs before and
after every measurement, and the least of each is taken, so that other load on the machine weighs little; what seems
slower is measured once more. `--update` commits to the ratios of this run: do it when something became faster, or
slower for a reason.
"""

from __future__ import annotations

import gc
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import check_workload
from benchmarks.calibration import once_ms
from benchmarks.report import Column, Report, number, progress
from bosket.api.object import KubeObject
from bosket.kube.codec import gc_paused
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide, open_session
from bosket.testing.cluster import NOW, state_of

FILE = Path(__file__).with_name("check.json")
#: Times the committed ratio: what is called slower.
MOST = 1.5
#: Measurements of each workload, of which the least counts.
ROUNDS = 9
EVENTS = 20  #: in one measurement of events

COLUMNS = (
    Column("workload", "workload"),
    Column("cpu_ms", "CPU", number(1, " ms")),
    Column("then", "ratio committed", number(2)),
    Column("now", "ratio now", number(2)),
    Column("quotient", "now / committed", number(2)),
)

Measure = Callable[[], float]  #: CPU milliseconds of one run, without what it needs


def run(*, update: bool = False, file: Path = FILE) -> Report:
    """Measures, and compares with the file, or writes it."""
    committed: dict[str, float] = json.loads(file.read_text()) if file.is_file() and not update else {}
    measures = workloads()
    least, calibration_ms = measure(measures)
    slower = [name for name, ms in least.items() if ms / calibration_ms > MOST * committed.get(name, math.inf)]
    if slower:  # before anybody looks for a reason: once more
        again, again_ms = measure({name: measures[name] for name in slower})
        least |= {name: min(ms, least[name]) for name, ms in again.items()}
        calibration_ms = min(calibration_ms, again_ms)
    ratios = {name: spent_ms / calibration_ms for name, spent_ms in least.items()}
    report = compare(ratios, ratios if update else committed, least)
    report.notes.append(f"The calibration loop took {calibration_ms:.2f} ms of CPU.")
    if update:
        rounded = {name: round(ratio, 3) for name, ratio in ratios.items()}
        file.write_text(json.dumps(rounded, indent=2) + "\n")
    return report


def measure(workloads: Mapping[str, Measure], calibrate: Measure = once_ms) -> tuple[dict[str, float], float]:
    """The least CPU milliseconds of each workload, and of the calibration loop, which runs in between all the time.

    Rounds go over all workloads, so that a minute in which the machine is busy costs each of them one measurement.
    """
    least: dict[str, float] = {}
    calibration_ms = calibrate()
    for number_of_round in range(ROUNDS):
        progress(f"round {number_of_round + 1} of {ROUNDS}")
        for name, once in workloads.items():
            spent_ms = once()
            least[name] = min(spent_ms, least.get(name, spent_ms))
            calibration_ms = min(calibration_ms, calibrate())
    return least, calibration_ms


def compare(ratios: Mapping[str, float], committed: Mapping[str, float], least: Mapping[str, float]) -> Report:
    """What is slower than committed is not as promised; a workload that nothing is committed for isn't, either."""
    report = Report("CPU of small workloads, as ratios to a calibration loop", COLUMNS)
    for name, now in ratios.items():
        then = committed.get(name)
        quotient = None if then is None else now / then
        figures = {"workload": name, "cpu_ms": least[name], "then": then, "now": now, "quotient": quotient}
        report.rows.append(figures)
        if then is None or quotient is None:
            report.broken.append(f"{name}: no ratio is committed; `--update` commits to {now:.2f}")
        elif quotient > MOST:
            slower = f"{quotient:.2f} times as slow as committed, {MOST} are allowed"
            report.broken.append(f"{name}: ratio {then:.2f} then, {now:.2f} now: {slower}")
        elif quotient < 1 / MOST:
            report.notes.append(f"{name}: {1 / quotient:.2f} times as fast as committed; `--update` keeps it so.")
    report.broken += [f"{name}: committed, but not measured" for name in committed if name not in ratios]
    return report


def workloads() -> dict[str, Measure]:
    """All workloads by name."""
    made: dict[str, Measure] = {}
    for name, build in check_workload.DECIDED.items():
        made[name] = _decision(build())
    objects = check_workload.running()
    made["opening"] = _opening(objects)
    made["an event and its cycle"] = _events(objects)
    gc.collect()
    gc.freeze()  # the clusters stay: no collection between measurements has to look at them
    return made


def _decision(objects: list[KubeObject]) -> Measure:
    """What deciding costs. The state is another one each time, which remembers nothing."""

    def once() -> float:
        snapshot = state_of(objects).snapshot(NOW)
        return _spent_ms(lambda: decide(snapshot, Configuration()))

    return once


def _opening(objects: list[KubeObject]) -> Measure:
    """What it costs to make a snapshot and a session of objects."""
    return lambda: _spent_ms(lambda: open_session(state_of(objects).snapshot(NOW), Configuration()))


def _events(objects: list[KubeObject]) -> Measure:
    """What a pod that ends, or starts again, costs with its cycle."""
    state = state_of(objects)
    pods = check_workload.ended_and_running(objects)
    decide(state.snapshot(NOW), Configuration())

    def change() -> None:
        for event in range(EVENTS):
            state.put(pods[event % 2])
            decide(state.snapshot(NOW), Configuration())

    return lambda: _spent_ms(change)


def _spent_ms(once: Callable[[], object]) -> float:
    with gc_paused():  # as in the scheduling loop
        began = time.process_time()
        once()
        return (time.process_time() - began) * 1e3
