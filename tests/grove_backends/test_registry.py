"""Which backend a gang gets, how that is remembered and counted, and how others add theirs."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from prometheus_client import CollectorRegistry

from bosket.api import keys
from bosket.api.grove import PodGang
from bosket.grove.backends import Registry, Rendering, SchedulerBackend, Surroundings, UnknownBackend, catalogue
from tests.grove_backends.scene import part, pod_gang


class Slurm(SchedulerBackend):
    """Of another package."""

    name = "slurm"
    scheduler_name = "slurm-bridge"

    def matches(self, scheduler_name: str) -> bool:
        return "slurm" in scheduler_name

    def sync(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        return Rendering()


@pytest.mark.parametrize(
    ("scheduler", "backend"),
    [
        ("", "default"),
        ("default-scheduler", "default"),
        ("koord-scheduler", "koordinator"),
        ("my-koordinator", "koordinator"),
        ("volcano", "volcano"),
        ("yunikorn", "yunikorn"),
        ("kai-scheduler", "kai"),
        ("anything-else", "kai"),
    ],
)
def test_the_schedulers_name_decides(scheduler: str, backend: str) -> None:
    assert Registry(catalogue.load_backends()).choose(scheduler).name == backend


def test_backends_are_found_by_their_names_and_by_nothing_else() -> None:
    """Unit table "Registry"."""
    registry = Registry(catalogue.load_backends())
    assert [registry.get(name).name for name in ("kai", "default", "volcano")] == ["kai", "default", "volcano"]
    for name in ("", " ", "KAI", "kai-scheduler"):
        with pytest.raises(UnknownBackend, match=f'no scheduler backend "{name}"'):
            registry.get(name)
    with pytest.raises(UnknownBackend, match='no scheduler backend is for the scheduler "default-scheduler"'):
        Registry([Slurm()]).choose("")
    with pytest.raises(ValueError, match='two backends "slurm"'):
        Registry([Slurm(), Slurm()])


def test_who_names_no_scheduler_goes_to_the_default_one() -> None:
    registry = Registry(catalogue.load_backends(), default_scheduler_name="kai-scheduler")
    assert registry.choose("").name == "kai"
    assert registry.choose("default-scheduler").name == "default"


def test_an_annotation_overrules_and_a_label_of_the_gang_is_kept() -> None:
    registry = Registry(catalogue.load_backends())
    assert registry.choose("volcano", {keys.GROVE_BACKEND_ANNOTATION: "kai"}).name == "kai"
    labelled = pod_gang(
        "g", part("a"), labels={keys.GROVE_BACKEND_LABEL: "volcano", keys.GROVE_SCHEDULER_LABEL: "kai-scheduler"}
    )
    assert registry.of_gang(labelled).name == "volcano"
    with pytest.raises(UnknownBackend, match='there is no scheduler backend "nobody"; there are: default, koordinator'):
        registry.choose("", {keys.GROVE_BACKEND_ANNOTATION: "nobody"})


@pytest.mark.parametrize(
    ("backend", "clique_says", "pods_get"),
    [
        ("kai", "", "kai-scheduler"),
        ("kai", "default-scheduler", "kai-scheduler"),
        ("kai", "team-scheduler", "team-scheduler"),
        ("koordinator", "kai-scheduler", "koord-scheduler"),
        ("koordinator", "my-koordinator", "my-koordinator"),
        ("default", "kai-scheduler", "default-scheduler"),
        ("default", "", "default-scheduler"),
    ],
)
def test_pods_get_the_scheduler_of_the_backend_that_an_annotation_names(
    backend: str, clique_says: str, pods_get: str
) -> None:
    registry = Registry(catalogue.load_backends())
    chosen = registry.choose(clique_says, {keys.GROVE_BACKEND_ANNOTATION: backend})
    assert (chosen.name, registry.scheduler_of_pods(chosen, clique_says)) == (backend, pods_get)


def test_each_gang_is_counted_once() -> None:
    metrics = CollectorRegistry()
    registry = Registry(catalogue.load_backends(), metrics=metrics)
    for _ in range(3):
        registry.of_gang(pod_gang("g", part("a"), labels={keys.GROVE_SCHEDULER_LABEL: "volcano"}))

    def count(backend: str) -> float | None:
        return metrics.get_sample_value("bosket_grove_backend_choices_total", {"backend": backend})

    assert count("volcano") == 1
    registry.of_gang(pod_gang("g", part("a"), labels={keys.GROVE_BACKEND_LABEL: "kai"}))
    assert (count("volcano"), count("kai")) == (1, 1)


def test_backends_of_other_packages_are_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("slurm", f"{__name__}:Slurm", catalogue.ENTRY_POINTS),
        EntryPoint("gone", "no.such.module:Thing", catalogue.ENTRY_POINTS),
        EntryPoint("odd", "builtins:dict", catalogue.ENTRY_POINTS),
    ]
    monkeypatch.setattr(catalogue, "entry_points", lambda group: points if group == catalogue.ENTRY_POINTS else [])
    registry = Registry(catalogue.load_backends())
    assert [each.name for each in registry.backends] == [
        "slurm",
        "default",
        "koordinator",
        "volcano",
        "yunikorn",
        "kai",
    ]
    assert registry.choose("slurm-bridge").name == "slurm"
