"""Which pod is charged with a claim that several use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bosket.api.core import Pod, PodStatus
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.kube.informer import Change
from bosket.services.podgroup.charges import Charges

PODS = [f"p{number}" for number in range(4)]
CLAIMS = ("x", "y")
STEPS = st.tuples(st.sampled_from(PODS), st.booleans(), st.frozensets(st.sampled_from(CLAIMS)), st.booleans())


def made(name: str, claims: frozenset[str], *, counts: bool) -> Pod:
    labels = dict.fromkeys(claims, "")
    return Pod(metadata=ObjectMeta(name=name, labels=labels), status=PodStatus(phase="Running" if counts else "Failed"))


@given(st.lists(STEPS, max_size=60))
def test_it_is_the_first_by_name_that_counts_whatever_happens_to_the_pods(
    steps: list[tuple[str, bool, frozenset[str], bool]],
) -> None:
    """And those who begin or cease to be charged are named."""
    charges = Charges(lambda pod: pod.metadata.labels, lambda pod: pod.status.phase == "Running")
    pods: dict[str, Pod] = {}
    before: dict[str, ObjectKey | None] = dict.fromkeys(CLAIMS)
    for name, is_there, claims, counts in steps:
        old = pods.pop(name, None)
        if is_there:
            pods[name] = made(name, claims, counts=counts)
        affected = charges.update(Change(old, pods.get(name)))
        users = [each for each in pods.values() if each.status.phase == "Running"]
        after = {
            claim: min((each.key for each in users if claim in each.metadata.labels), default=None) for claim in CLAIMS
        }
        assert {claim: charges.charged(claim) for claim in CLAIMS} == after
        moved = [claim for claim in CLAIMS if before[claim] != after[claim]]
        assert affected == {each[claim] for each in (before, after) for claim in moved} - {None}
        before = after


def test_pods_that_come_and_go_behind_the_charged_one_leave_nothing_behind() -> None:
    charges = Charges(lambda pod: pod.metadata.labels, lambda pod: True)
    charges.update(Change(None, made("a", frozenset("x"), counts=True)))
    for _ in range(100):
        passing = made("b", frozenset("x"), counts=True)
        charges.update(Change(None, passing))
        charges.update(Change(passing, None))
    (users,) = charges._users.values()
    assert len(users._heap) < 20
