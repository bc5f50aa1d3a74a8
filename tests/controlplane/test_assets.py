from __future__ import annotations

from pathlib import Path

from tests.controlplane import assets
from tests.controlplane.release import BINARIES, RELEASE


def folder_with(path: Path, names: list[str]) -> Path:
    path.mkdir(parents=True)
    for name in names:
        (path / name).touch(mode=0o755)
    return path


ALL = [binary.name for binary in BINARIES]


def test_a_complete_kubebuilder_assets_folder_is_taken(tmp_path: Path) -> None:
    given = folder_with(tmp_path / "given", ALL)
    folder_with(tmp_path / "bosket" / "controlplane" / RELEASE, ALL)
    environment = {"KUBEBUILDER_ASSETS": str(given), "XDG_CACHE_HOME": str(tmp_path)}
    assert assets.find(print, environment) == given


def test_an_incomplete_kubebuilder_assets_folder_is_named_with_what_it_lacks_and_passed_over(tmp_path: Path) -> None:
    given = folder_with(tmp_path / "given", ["etcd", "kube-apiserver", "kubectl"])
    cached = folder_with(tmp_path / "bosket" / "controlplane" / RELEASE, ALL)
    said: list[str] = []
    environment = {"KUBEBUILDER_ASSETS": str(given), "XDG_CACHE_HOME": str(tmp_path)}
    assert assets.find(said.append, environment) == cached
    assert said == [
        f"KUBEBUILDER_ASSETS={given} has no kube-controller-manager, kube-scheduler, kwok: looking elsewhere"
    ]


def test_half_a_release_in_the_cache_is_not_used(tmp_path: Path) -> None:
    folder_with(tmp_path / "bosket" / "controlplane" / RELEASE, ALL[1:])
    assert assets.find(print, {"XDG_CACHE_HOME": str(tmp_path)}) is None


def test_a_release_in_the_cache_is_obtained_without_a_build(tmp_path: Path) -> None:
    cached = folder_with(tmp_path / "bosket" / "controlplane" / RELEASE, ALL)
    said: list[str] = []
    assert assets.obtain(said.append, {"XDG_CACHE_HOME": str(tmp_path)}) == cached
    assert said == []
