"""At debug level the log explains each cycle: numbered steps, with what each looked at, decided and refused."""

import logging

import pytest

from bosket.scheduler.answers import cycle_steps
from bosket.scheduler.answers.cycle_steps import explained, log_steps
from bosket.scheduler.decide import decide
from bosket.scheduler.loop import service
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.options import Options
from bosket.testing.build import gang, job, node, pod_group, priority_class, queue
from bosket.testing.cluster import configured, snapshot_of
from tests.rig import NAMESPACE, make_rig

CONFIGURATION = configured("allocate", "preempt", "stalegangeviction")


def a_cluster() -> Snapshot:
    """One gang fits, one is too large, one lacks pods, and one is more important than what runs."""
    return snapshot_of(
        [node("n1", gpus=2), node("n2", gpus=2), queue("q")],
        [priority_class("low", 10), priority_class("high", 90)],
        [pod_group("fits", queue="q"), *gang("fits", 1, gpus=1)],
        [pod_group("large", queue="q", min_member=9), *gang("large", 9, gpus=1)],
        [pod_group("short", queue="q", min_member=3), *gang("short", 1)],
        job("runs", gpus=2, on="n2", priority="low"),
        job("urgent", gpus=2, priority="high"),
    )


def test_each_step_of_a_cycle_is_told_with_its_counts() -> None:
    snapshot = a_cluster()
    assert list(explained(snapshot, CONFIGURATION, decide(snapshot, CONFIGURATION))) == [
        "snapshot: 2 nodes, 1 queues, 5 jobs, 4 of them to look at",
        f"open: {len(CONFIGURATION.plugins)} plugins",
        "candidates: 3 of 4 jobs may be scheduled; refused: 1 by NotReady",
        "allocate: 3 jobs looked at, 1 jobs placed (pods: 1 to bind); "
        "refused: 2 by nodes (node(s) didn't have enough resources: GPUs)",
        "preempt: 2 jobs looked at, victims searched for on behalf of 2 (1 scenarios simulated), "
        "1 jobs placed (pods: 1 to wait for what is being released, 1 to evict)",
        "stalegangeviction: 0 jobs looked at, nothing decided",
        "close: 1 jobs have all their places, 3 wait, 1 pods to bind, 1 to evict",
    ]


def test_who_does_not_read_the_log_pays_for_no_words(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle_steps, "explained", None)
    snapshot = a_cluster()
    with caplog.at_level(logging.INFO):
        log_steps(logging.getLogger("t"), "cycle 1", snapshot, CONFIGURATION, decide(snapshot, CONFIGURATION))
    assert not caplog.messages


@pytest.mark.looptime
async def test_the_running_scheduler_numbers_its_cycles_and_their_steps(caplog: pytest.LogCaptureFixture) -> None:
    rig = await make_rig([node("n1", gpus=1), queue("q"), pod_group("g", namespace=NAMESPACE)])
    await rig.apply(*gang("g", 1, namespace=NAMESPACE))
    with caplog.at_level(logging.DEBUG, logger="bosket.scheduler.loop"):
        async with rig.running(lambda env: service(env, Options())):
            await rig.until(lambda: rig.events("Scheduled"))
    steps = [each for each in caplog.messages if each.startswith("cycle 1, ")]
    assert steps[0].startswith("cycle 1, step 1: snapshot: 1 nodes")
    assert steps[1].startswith("cycle 1, step 2: open: ")
    assert [each.split(": ")[0] for each in steps] == [f"cycle 1, step {number}" for number in range(1, len(steps) + 1)]
    assert steps[-1].split(": ")[1] == "close"
