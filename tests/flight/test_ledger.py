"""The ledger: every GPU-second is on one account, over restarts, clock changes and changes of the cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.object import KubeObject
from bosket.cli.main import main
from bosket.scheduler.answers.ledger import HOUR, NOBODY, UNITS_PER_HOUR, Account, Ledger, divided, grouped
from bosket.scheduler.recording.flight.reader import FlightRecording
from bosket.testing.build import cordoned, gang, node, pod, pod_group, queue
from tests.flight.recorded_run import RecordedRun

#: A full hour.
BEGIN = 1_750_003_200.0
UNITS_PER_SECOND = UNITS_PER_HOUR // HOUR


class History:
    """A cluster that changes, recorded, and an account of it that is kept by much simpler means."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.now = folder, BEGIN
        self._objects: dict[tuple[str, str], KubeObject] = {}
        self._gpus: dict[str, int] = {}
        self._down: set[str] = set()
        self._pods: dict[str, tuple[str, str, int]] = {}  # queue, node, GPUs
        self._counted = BEGIN
        self.capacity, self.down = 0.0, 0.0
        self.allocated: dict[str, float] = defaultdict(float)
        self._run = RecordedRun(folder)

    def put(self, kind: str, name: str, *objects: KubeObject) -> None:
        for each in objects:
            self._run.state.put(each)
            self._objects[kind, f"{name} {type(each).__name__}"] = each

    def drop(self, kind: str, name: str) -> None:
        for key in [key for key in self._objects if key[0] == kind and key[1].split(" ")[0] == name]:
            self._run.state.drop(self._objects.pop(key))

    def add_node(self, name: str, gpus: int, *, is_down: bool = False) -> None:
        made = node(name, gpus=gpus)
        self.put("node", name, cordoned(made) if is_down else made)
        self._gpus[name] = gpus
        (self._down.add if is_down else self._down.discard)(name)

    def start(self, name: str, on: str, gpus: int, of: str) -> None:
        running = pod(name).gpu(gpus).of_group(name).running_on(on).build()
        self.put("pod", name, pod_group(name, queue=of), running)
        self._pods[name] = of, on, gpus

    def end(self, name: str) -> None:
        self.drop("pod", name)
        del self._pods[name]

    def cycle(self, seconds: float) -> None:
        """So much later; a clock may go back."""
        self.now += seconds
        self._run.cycle(self.now)

    def count(self) -> None:
        """Called before anything changes: the time since the last cycle, as things are."""
        spent = max(0.0, self.now - self._counted)
        self._counted = max(self._counted, self.now)
        self.capacity += spent * sum(self._gpus.values())
        used: dict[str, int] = defaultdict(int)
        for of, on, gpus in self._pods.values():
            self.allocated[of] += spent * gpus
            used[on] += gpus
        self.down += spent * sum(self._gpus[each] - used[each] for each in self._down)

    def free(self, name: str) -> int:
        return self._gpus[name] - sum(gpus for _, on, gpus in self._pods.values() if on == name)

    @property
    def nodes(self) -> list[str]:
        return sorted(self._gpus)

    @property
    def pods(self) -> list[str]:
        return sorted(self._pods)

    def restart(self) -> None:
        """Another process takes over. Files are in the order of their times: its clock isn't behind."""
        self.now = max(self.now, self._counted)
        self._run.recorder.close()
        self._run = RecordedRun(self._folder, *self._objects.values())

    def close(self) -> Ledger:
        self._run.recorder.close()
        ledger = Ledger()
        ledger.follow(FlightRecording(self._folder).cycles())
        return ledger


def random_history(seed: int, folder: Path) -> History:
    dice, history = Random(seed), History(folder)
    for name in ("a", "b"):
        history.put("queue", name, queue(name, quota=dice.choice((0, 4, 8))))
    for number in range(dice.randrange(1, 4)):
        history.add_node(f"n{number}", dice.choice((4, 8)))
    history.cycle(0)
    for number in range(dice.randrange(3, 15)):
        # Whole seconds, and times of day that no second divides.
        history.cycle(dice.choice((1, 60, 3600, 10_000, 0.5, -300, 1800.25)))
        history.count()
        roll = dice.random()
        if roll < 0.45 and (free := [each for each in history.nodes if history.free(each)]):
            on = dice.choice(free)
            history.start(f"p{number}", on, dice.randrange(1, history.free(on) + 1), dice.choice("ab"))
        elif roll < 0.65 and history.pods:
            history.end(dice.choice(history.pods))
        elif roll < 0.8:
            name = dice.choice(history.nodes)
            history.add_node(name, history._gpus[name], is_down=dice.random() < 0.5)
        elif roll < 0.9:
            history.restart()
        else:
            history.add_node(f"m{number}", 4)
        history.cycle(0)
    return history


def total(accounts: Iterable[Account]) -> Account:
    found = Account()
    for each in accounts:
        found.add(each)
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_every_gpu_second_is_on_one_account(seed: int) -> None:
    with TemporaryDirectory() as folder:
        history = random_history(seed, Path(folder))
        ledger = history.close()
    by_hour: dict[int, list[Account]] = defaultdict(list)
    by_queue: dict[str, list[Account]] = defaultdict(list)
    for hour, name, account in grouped(ledger, "queue"):
        by_hour[hour].append(account)
        by_queue[name].append(account)
    for hour, capacity in ledger.capacity.items():
        assert total(by_hour[hour]).capacity == capacity
    everything = total(ledger.accounts.values())
    assert everything.capacity == round(history.capacity * UNITS_PER_SECOND)
    assert everything.down == round(history.down * UNITS_PER_SECOND)
    for name in ("a", "b"):
        assert total(by_queue[name]).allocated == round(history.allocated[name] * UNITS_PER_SECOND)
    assert everything.borrowed == sum(sum(each.borrowed_from.values()) for each in ledger.accounts.values())
    assert everything.lent == sum(
        part for each in ledger.accounts.values() for lender, part in each.borrowed_from.items() if lender != NOBODY
    )


@given(st.integers(0, 10**12), st.dictionaries(st.text(max_size=3), st.integers(0, 10**9), max_size=6))
def test_nothing_is_lost_where_an_amount_is_divided(amount: int, weights: dict[str, int]) -> None:
    parts = divided(amount, weights)
    assert sum(parts.values()) == amount
    assert all(part > 0 for part in parts.values())


def test_an_hour_in_which_one_queue_borrows_from_another(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.put("queue", "a", queue("a", quota=4))
    history.put("queue", "b", queue("b", quota=4))
    history.add_node("n", 8)
    history.start("x", "n", 6, "a")
    history.cycle(0)
    history.put("waiting", "w", pod_group("w", queue="b"), *gang("w", 1, gpus=4))
    history.cycle(1800)
    history.cycle(1800)
    ledger = history.close()
    found = {name: account for _, name, account in grouped(ledger, "queue")}
    hours = {name: account.allocated / UNITS_PER_HOUR for name, account in found.items()}
    assert hours == {"a": 6, "b": 0}
    a, b = found["a"], found["b"]
    assert (a.borrowed / UNITS_PER_HOUR, a.borrowed_from) == (2, {"b": 2 * UNITS_PER_HOUR})
    assert b.lent / UNITS_PER_HOUR == 2
    assert (b.idle / UNITS_PER_HOUR, b.idle_waited / UNITS_PER_HOUR) == (1, 1)  # two GPUs; its job came in the middle
    assert a.capacity + b.capacity == 8 * UNITS_PER_HOUR


def test_the_command_prints_accounts_by_queue_and_by_namespace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(tmp_path)
    history.put("queue", "a", queue("a", quota=4))
    history.add_node("n", 8)
    history.start("x", "n", 6, "a")
    history.cycle(0)
    history.cycle(3600)
    history.close()
    assert main(["ledger", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("6 of 8 GPU hours were used (75%), 0 were idle while somebody waited, from ")
    assert main(["ledger", str(tmp_path), "--by", "namespace", "--csv"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.startswith("hour,namespace,capacity,allocated")
    assert line.split(",")[1:4] == ["default", "6.0", "6.0"]
    assert main(["ledger", str(tmp_path), "--csv", "--json"]) == 2
    assert main(["ledger", str(tmp_path), "--from", "1h", "--to", "2h"]) == 2
