"""Clusters are read from dumps of kubectl, from manifests and from snapshots; what can't be read is said."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
import yaml

from bosket.api.core import Node, Pod
from bosket.api.kai import PodGroup, Queue
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod_group, queue
from bosket.testing.cluster import NOW, state_of
from bosket.tools.doctor.diagnose import diagnose
from bosket.tools.doctor.files import UnreadableFile, read_files

QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": {"parentQueue": "x"}}
LIST = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [QUEUE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}],
}


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump], ids=["json", "yaml"])
def test_what_kubectl_prints_is_read(tmp_path: Path, dump: object) -> None:
    assert callable(dump)
    bundle = read_files([written(tmp_path / "dump", dump(LIST))])
    assert [queue.spec.parentQueue for queue in bundle.of(Queue)] == ["x"]
    assert bundle.knows(Queue, Node)
    assert not bundle.knows(Pod)


def test_a_list_of_one_kind_tells_what_its_objects_are_even_if_there_are_none(tmp_path: Path) -> None:
    bare = {"metadata": {"name": "q"}}
    document = {"apiVersion": "scheduling.run.ai/v2", "kind": "QueueList", "items": [bare]}
    empty = {"apiVersion": "v1", "kind": "PodList", "items": []}
    bundle = read_files(
        [written(tmp_path / "a.json", json.dumps(document)), written(tmp_path / "b", json.dumps(empty))]
    )
    assert [queue.metadata.name for queue in bundle.of(Queue)] == ["q"]
    assert bundle.knows(Pod)


def test_folders_are_read_with_all_their_files_and_the_last_one_wins(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path / "a.yaml", yaml.safe_dump_all([QUEUE, None]))
    written(tmp_path / "sub" / "b.yml", yaml.safe_dump({**QUEUE, "spec": {"parentQueue": "y"}}))
    written(tmp_path / "notes.txt", "not an object")
    assert [queue.spec.parentQueue for queue in read_files([tmp_path]).of(Queue)] == ["y"]


@pytest.mark.parametrize("packed", [True, False], ids=["zipped", "json"])
def test_snapshots_are_read_and_know_all_that_they_record(tmp_path: Path, packed: bool) -> None:
    objects = [node("n", gpus=1), queue("default-queue"), pod_group("g", queue="nowhere"), *gang("g", 1)]
    taken = take(state_of(objects), StateOptions(), Configuration(), NOW)
    file = tmp_path / "snapshot"
    with zipfile.ZipFile(io.BytesIO(zipped(taken))) as archive:
        file.write_bytes(zipped(taken) if packed else archive.read("snapshot.json"))
    bundle = read_files([file])
    assert bundle.knows(Node, Queue, Pod, PodGroup)
    assert bundle.now == NOW
    assert "podgroup-queue-unknown" in [each.code for each in diagnose(bundle).findings]


def test_an_object_that_does_not_fit_its_kind_is_named(tmp_path: Path) -> None:
    odd = {**QUEUE, "spec": {"parentQueue": 7}}
    bundle = read_files([written(tmp_path / "f.json", json.dumps({**LIST, "items": [odd]}))])
    (finding,) = diagnose(bundle).findings
    assert (finding.code, finding.object) == ("object-malformed", "Queue q")
    assert "spec.parentQueue" in finding.problem


def test_kinds_of_others_are_kept_as_they_are(tmp_path: Path) -> None:
    other = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": {"name": "t"}}
    bundle = read_files([written(tmp_path / "f.yaml", yaml.safe_dump(other))])
    assert bundle.foreign == {("kueue.x-k8s.io", "Topology"): (other,)}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a: [", "neither JSON nor YAML"),
        ("just a text", "it has no kind"),
        ("{}", "it has no kind"),
        (b"\xff\xfe\x00", "neither text nor a zipped snapshot"),
    ],
)
def test_a_file_that_holds_no_objects_is_refused_with_its_name(tmp_path: Path, content: str | bytes, told: str) -> None:
    file = tmp_path / "odd.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UnreadableFile, match=told) as refused:
        read_files([file])
    assert str(file) in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="No such file"):
        read_files([tmp_path / "gone.yaml"])
    with pytest.raises(UnreadableFile, match="there are no files in it"):
        read_files([tmp_path])
