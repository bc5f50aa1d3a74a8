"""Manifests of documentation, applied to an embedded cluster: what a folder contains, and the report on it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.documents import run, scenarios

_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: NAMESPACE, labels: {kai.scheduler/queue: team}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: "GPUS"}}}]
"""


def pod(name: str, *, gpus: int = 1, namespace: str = "default") -> str:
    return _POD.replace("NAME,", f"{name},").replace("NAMESPACE", namespace).replace("GPUS", str(gpus))


def test_a_folder_is_a_scenario_and_so_is_a_page_with_blocks(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{pod('a')}---\n{pod('b')}")
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    block = "".join(f"  {line}\n" for line in pod("c").splitlines())
    (tmp_path / "page.md").write_text(f"1. Apply it:\n\n  ```yaml\n{block}  ```\n\n```yaml\n<your values>: [\n```\n")
    found = {each.name: each for each in scenarios(tmp_path)}
    assert [manifest["metadata"]["name"] for manifest in found["."].manifests] == ["a", "b"]
    assert [manifest["metadata"]["name"] for manifest in found["page.md"].manifests] == ["c"]
    assert found["page.md"].left_out == ["a block is no YAML"]


def test_a_page_that_describes_an_object_twice_shows_two_ways(tmp_path: Path) -> None:
    blocks = (pod("shared"), pod("a", gpus=1), pod("a", gpus=2))
    (tmp_path / "page.md").write_text("".join(f"```yaml\n{block}```\n" for block in blocks))
    found = [(each.name, [manifest["metadata"]["name"] for manifest in each.manifests]) for each in scenarios(tmp_path)]
    assert found == [("page.md", ["shared", "a"]), ("page.md (2)", ["shared", "a"])]


def test_what_is_needed_is_made_and_named_and_the_pods_are_counted(tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text(f"{pod('a', namespace='lab')}---\n{pod('b', gpus=9)}")
    (tmp_path / "others.yaml").write_text("apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: w}\n")
    (row,) = run(tmp_path).rows
    assert row["kinds"] == "Gadget, 2 Pod"
    assert row["needs"] == "namespace lab; queue team; the definition of Gadget (example.com/v1)"
    assert row["outcome"].startswith("1 pod Pending; 1 pod Running; waits: ")
    assert row["outcome"].endswith("not applied: Gadget")
