"""Whatever a statement does can be undone exactly, and views of nodes follow it exactly."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.scheduler.decide import open_session
from bosket.scheduler.framework.configuration import Configuration
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.task import TaskStatus
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, snapshot_of

RUNNING = TaskStatus.RUNNING

gangs = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 6), st.integers(1, 4), st.sampled_from("abc")), max_size=8
)  # fewer than all that are needed, pods, GPUs per pod, queue


@st.composite
def clusters(draw):
    nodes = [
        node(f"n{i}", gpus=gpus) for i, gpus in enumerate(draw(st.lists(st.integers(0, 8), min_size=1, max_size=6)))
    ]
    queues = [queue("unlimited"), queue("top", limit=draw(st.sampled_from([-1, 6, 12])))]
    queues += [queue(name, parent="top", limit=draw(st.sampled_from([-1, 2, 5]))) for name in "abc"]
    groups, pods = [], []
    for number, (less, size, gpus, name) in enumerate(draw(gangs)):
        groups.append(pod_group(f"g{number}", min_member=max(0, size - less), queue=name))
        pods += gang(f"g{number}", size, gpus=gpus)
    for number, (row, gpus, leaving) in enumerate(
        draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.booleans()), max_size=5))
    ):
        held = pod(f"r{number}").gpu(gpus).running_on(f"n{row % len(nodes)}")
        pods.append((held.being_deleted_at(NOW) if leaving else held).build())
    for number, (row, gpus) in enumerate(draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=4))):
        groups.append(pod_group(f"running{number}", queue="unlimited"))
        member = pod(f"running{number}-0").of_group(f"running{number}").gpu(gpus)
        pods.append(member.running_on(f"n{row % len(nodes)}").build())
    return [*nodes, *queues, *groups, *pods]


def accounts(session):
    """Everything that a statement may change, byte for byte."""
    queues = session.queues
    return (
        session.nodes.idle.tobytes(),
        session.nodes.releasing.tobytes(),
        queues.allocated[:],
        queues.non_preemptible[:],
    )


@given(clusters(), st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=100, deadline=None)
def test_undo_restores_everything_to_the_bit(objects, keep, evict):
    snapshot = snapshot_of(objects)
    session = open_session(snapshot, Configuration())
    jobs = session.candidates()
    running = [
        (session.state(job), task) for job in snapshot.jobs.values() for task in job.tasks if task.status == RUNNING
    ]
    before = accounts(session)
    next_before = [[task.key for task in job.next_tasks()] for job in jobs]
    statement = Statement(session)
    for state, task in running[:evict]:
        statement.evict(state, task)
    for number, job in enumerate(jobs + [state for state, _ in running]):
        with statement.checkpoint() as trial:
            for task in job.next_tasks():
                row = session.view(task.pod_class).best()
                if row is not None:
                    place = statement.pipeline if number % 2 or job not in jobs else statement.allocate
                    place(job, task, row)
            if number < keep:
                trial.keep()
    for job in jobs:
        statement.convert_to_pipelined(job)
    statement.discard()
    assert accounts(session) == before
    assert [[task.key for task in job.next_tasks()] for job in jobs] == next_before


def test_a_victim_that_finds_a_place_where_it_was_is_not_evicted_at_all():
    snapshot = snapshot_of(
        [
            node("n0", gpus=2),
            queue("a"),
            pod_group("g", queue="a"),
            pod("p").of_group("g").gpu(2).running_on("n0").build(),
        ]
    )
    session = open_session(snapshot, Configuration())
    (job,) = snapshot.jobs.values()
    (task,) = job.tasks
    state = session.state(job)
    before = accounts(session)
    statement = Statement(session)
    statement.evict(state, task)
    assert state.next_tasks() == [task]
    assert accounts(session) != before
    statement.pipeline(state, task, session.view(task.pod_class).best())
    statement.commit()
    assert accounts(session) == before
    assert session.close().evictions == ()


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_a_view_kept_by_columns_equals_one_made_anew(objects):
    session = open_session(snapshot_of(objects), Configuration())
    statement = Statement(session)
    for job in session.candidates():
        for task in job.next_tasks():
            row = session.view(task.pod_class).best()
            session._views.clear()
            assert session.view(task.pod_class).best() == row
            if row is not None:
                statement.allocate(job, task, row)
