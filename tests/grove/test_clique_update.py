"""How the pods of a PodClique are replaced by those of a new template."""

from __future__ import annotations

from collections.abc import Sequence

from bosket.api.core import ContainerStatus, Pod, PodCondition, PodStatus
from bosket.api.grove import PodClique, PodCliqueStatus, PodCliqueUpdateProgress, PodsSelectedToUpdate
from bosket.api.grove.naming import TEMPLATE_HASH_LABEL
from bosket.api.object import ObjectMeta
from bosket.grove.operator.clique_update import Step, next_step
from bosket.grove.render.template import is_terminating
from tests.grove.sets import NAMESPACE, clique

NOW = 1_000_000.0


def _pod(name: str, hash_: str, *, ready: bool = True, age: int = 0, going: bool = False) -> Pod:
    meta = ObjectMeta(
        name=name,
        namespace=NAMESPACE,
        uid=name,
        labels={TEMPLATE_HASH_LABEL: hash_},
        creationTimestamp=f"2025-01-01T00:00:{59 - age:02}Z",
        deletionTimestamp="2025-01-01T00:01:00Z" if going else None,
    )
    status = PodStatus(
        phase="Running" if ready else "Pending",
        conditions=(PodCondition(type="Ready", status="True" if ready else "False"),),
        containerStatuses=(
            ContainerStatus(name="main", ready=ready, started=ready, restartCount=0, image="", imageID=""),
        ),
    )
    return Pod(metadata=meta, status=status)


def _step(
    pods: Sequence[Pod],
    *,
    minimum: int = 1,
    chosen: PodsSelectedToUpdate | None = None,
    replicas: int | None = None,
) -> Step:
    progress = PodCliqueUpdateProgress(
        updateStartedAt="2025-01-01T00:00:00Z",
        podCliqueSetGenerationHash="g",
        podTemplateHash="new",
        readyPodsSelectedToUpdate=chosen,
    )
    template = clique("a", len(pods) if replicas is None else replicas, minimum)
    updating = PodClique(
        metadata=ObjectMeta(name="s-0-a", namespace=NAMESPACE),
        spec=template.spec,
        status=PodCliqueStatus(updateProgress=progress),
    )
    return next_step(updating, pods, is_terminating, "new", NOW)


def _deleted(step: Step) -> list[str]:
    return [each.metadata.name for each in step.delete]


def test_the_oldest_ready_pod_goes_first_and_alone() -> None:
    step = _step([_pod("young", "old"), _pod("aged", "old", age=30)])
    assert _deleted(step) == ["aged"]
    assert step.progress.readyPodsSelectedToUpdate == PodsSelectedToUpdate(current="aged")


def test_pods_that_are_not_ready_go_at_once() -> None:
    step = _step([_pod("a", "old", ready=False), _pod("b", "old", ready=False), _pod("c", "old")])
    assert _deleted(step) == ["a", "b", "c"]


def test_nobody_ready_goes_while_too_few_are_ready() -> None:
    step = _step([_pod("a", "old", ready=False), _pod("b", "old")], minimum=2)
    assert _deleted(step) == ["a"]


def test_the_next_one_waits_until_the_replacement_is_ready() -> None:
    chosen = PodsSelectedToUpdate(current="gone")
    assert _deleted(_step([_pod("b", "old"), _pod("c", "new", ready=False)], chosen=chosen)) == []
    step = _step([_pod("b", "old"), _pod("c", "new")], chosen=chosen)
    assert _deleted(step) == ["b"]
    assert step.progress.readyPodsSelectedToUpdate == PodsSelectedToUpdate(current="b", completed=("gone",))


def test_a_chosen_pod_that_was_never_deleted_is_deleted_after_a_restart() -> None:
    step = _step([_pod("a", "old"), _pod("b", "old")], chosen=PodsSelectedToUpdate(current="b"))
    assert _deleted(step) == ["b"]


def test_the_update_ends_when_no_old_pod_is_left() -> None:
    step = _step([_pod("a", "new"), _pod("b", "old", going=True)], chosen=PodsSelectedToUpdate(current="b"))
    assert step.has_ended
    assert step.progress.readyPodsSelectedToUpdate is None


def test_a_new_pod_counts_as_no_replacement_of_those_done_before() -> None:
    chosen = PodsSelectedToUpdate(current="gone2", completed=("gone1",))
    assert not _step([_pod("a", "new")], chosen=chosen, replicas=2).has_ended


def test_a_pod_whose_place_was_scaled_away_is_not_waited_for() -> None:
    chosen = PodsSelectedToUpdate(current="gone")
    pods = [_pod("a", "old"), _pod("b", "old", age=1)]
    assert _deleted(_step(pods, chosen=chosen, replicas=3)) == []
    assert _deleted(_step(pods, chosen=chosen, replicas=2)) == ["b"]
