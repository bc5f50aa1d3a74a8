"""A cluster in order gives no finding; what wasn't read is said, and nothing is made of it."""

from __future__ import annotations

import pytest

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.core import Node, Pod
from bosket.api.kai import PodGroup, Queue
from bosket.api.object import KubeObject
from bosket.cli.demo import story
from bosket.embedded.cluster import EmbeddedCluster
from bosket.testing.build import node, queue
from bosket.tools.doctor.bundle import Bundle, Obstacle, Unread, bundle_of
from bosket.tools.doctor.collect import collect
from bosket.tools.doctor.diagnose import CHECKS, diagnose
from tests.diagnosis.installed import bundle, findings, installed


def test_an_installed_cluster_in_order_has_nothing_wrong() -> None:
    diagnosis = diagnose(bundle(installed()))
    assert [(each.code, each.object, each.problem) for each in diagnosis.findings] == []
    assert diagnosis.not_checked == {}


def test_an_empty_bundle_says_what_it_could_not_check() -> None:
    diagnosis = diagnose(Bundle())
    assert diagnosis.findings == ()
    assert diagnosis.not_checked == {
        check.name: tuple(kind.__name__ for kind in check.needs) for check in CHECKS if check.needs
    }


def test_checks_that_have_what_they_need_run_where_others_cannot() -> None:
    diagnosis = diagnose(bundle_of([queue("default-queue", parent="nowhere"), node("n")]))
    assert [each.code for each in diagnosis.findings] == ["queue-parent-missing"]
    assert "pods and queues" in diagnosis.not_checked
    assert "queue tree" not in diagnosis.not_checked


def test_kinds_that_may_not_be_listed_are_findings() -> None:
    unread: dict[type[KubeObject], Unread] = {
        Pod: Unread(Obstacle.FORBIDDEN, "pods is forbidden"),
        Node: Unread(Obstacle.FAILED, "500"),
    }
    found = diagnose(Bundle(objects={Queue: (queue("default-queue"),)}, unread=unread)).findings
    assert [(each.code, each.object) for each in found] == [("kind-forbidden", "pods"), ("kind-unreadable", "nodes")]
    assert found[0].command == "kubectl auth can-i list pods --all-namespaces"


def test_a_cluster_in_which_nothing_is_installed_is_told_each_missing_kind_once() -> None:
    unread: dict[type[KubeObject], Unread] = {kind: Unread(Obstacle.NOT_SERVED) for kind in (Queue, PodGroup)}
    found = diagnose(Bundle(unread=unread)).findings
    assert [each.code for each in found] == ["kind-not-served", "kind-not-served"]
    found = diagnose(Bundle(objects={CustomResourceDefinition: ()}, unread=unread)).findings
    assert {each.code for each in found} == {"crd-missing"}


@pytest.mark.parametrize("number", range(len(CHECKS)), ids=[check.name for check in CHECKS])
def test_every_check_needs_no_more_than_it_says(number: int) -> None:
    """With only its own kinds known, and nothing of them there, a check runs."""
    check = CHECKS[number]
    diagnose(bundle_of([], check.needs))


async def test_an_embedded_cluster_has_nothing_wrong() -> None:
    async with EmbeddedCluster(nodes=2) as cluster:
        await cluster.wait_ready()
        diagnosis = diagnose(await collect(cluster.client(), runs_in_process=True))
    assert [(each.code, each.problem) for each in diagnosis.findings] == []
    assert diagnosis.not_checked == {}


def test_the_queues_of_the_demo_are_in_order() -> None:
    nodes = [node(f"n{number}", gpus=story.GPUS_PER_NODE) for number in range(story.NODES)]
    assert diagnose(bundle_of([*story.queues(), queue("default-queue"), *nodes])).findings == ()


def test_findings_stand_by_severity() -> None:
    broken = [each for each in installed() if type(each) is not Queue]
    severities = [each.severity for each in findings([*broken, queue("team", parent="x", quota=9, limit=8)])]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
