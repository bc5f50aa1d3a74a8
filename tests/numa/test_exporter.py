"""What the exporter reads from a kubelet and from sysfs, and what it writes onto pods."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from bosket.api.core import Pod
from bosket.api.keys import NUMA_OBSERVED_ANNOTATION
from bosket.cli.main import main
from bosket.services.numa import Exporter, KubeletSocket, KubeletUnreachable, Options, UnreadableCpus, read_cpu_zones
from bosket.services.numa.placement import annotation_of, placement_of
from bosket.services.numa.pod_resources import (
    ContainerResources,
    Devices,
    MalformedAnswer,
    Memory,
    PodResources,
    decode_list,
)
from bosket.testing.build import node, pod
from tests.rig import NAMESPACE, Rig, make_rig

CPU_ZONES = {0: 0, 1: 0, 2: 1, 300: 1}
GIB = 1 << 30


# What a kubelet writes: protobuf, by hand.


def varint(value: int) -> bytes:
    low = value & 0x7F
    return bytes([low]) if value < 0x80 else bytes([low | 0x80]) + varint(value >> 7)


def part(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def topology(*zones: int) -> bytes:
    return b"".join(part(1, part(1, zone) if zone else b"") for zone in zones)


CONTAINER = (
    part(1, "c")
    + part(2, part(1, "nvidia.com/gpu") + part(2, "GPU-1") + part(2, "GPU-2") + part(3, topology(1)))
    + part(3, varint(0) + varint(2) + varint(300))
    + part(4, part(1, "memory") + part(2, GIB) + part(3, topology(0)))
    + part(5, part(2, "a claim, which is nothing to us"))
)
ANSWER = part(1, part(1, "p") + part(2, "ml") + part(3, CONTAINER) + part(9, 7) + part(10, "unknown"))
POD = PodResources(
    "ml",
    "p",
    (
        ContainerResources(
            (Devices("nvidia.com/gpu", ("GPU-1", "GPU-2"), (1,)),), (0, 2, 300), (Memory("memory", GIB, (0,)),)
        ),
    ),
)
EXPECTED = (
    '[{"zone":"node-0","amount":{"cpu":"1","memory":"1073741824"}},'
    '{"zone":"node-1","amount":{"cpu":"2","nvidia.com/gpu":"2"}}]'
)


def test_an_answer_is_read_and_what_is_new_in_it_is_skipped() -> None:
    assert decode_list(ANSWER) == [POD]
    assert decode_list(b"") == []
    fixed = varint(20 << 3 | 5) + bytes(4) + varint(21 << 3 | 1) + bytes(8)
    assert decode_list(ANSWER + fixed) == [POD]


def test_numbers_one_by_one_mean_the_same_as_packed_ones() -> None:
    container = part(3, 0) + part(3, 2) + part(3, 300)
    (found,) = decode_list(part(1, part(3, container)))
    assert found.containers[0].cpus == (0, 2, 300)


@pytest.mark.parametrize("data", [ANSWER[:-1], b"\x0a", b"\x0b", b"\xff" * 11, part(1, 5), part(1, part(1, b"\xff"))])
def test_what_is_no_answer_is_said(data: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        decode_list(data)


def test_resources_are_counted_by_the_zone_they_are_in() -> None:
    assert annotation_of(placement_of(POD, CPU_ZONES)) == EXPECTED


def test_what_is_in_several_zones_or_none_belongs_to_nobody() -> None:
    container = ContainerResources(
        (Devices("nvidia.com/gpu", ("a",), (0, 1)), Devices("example.com/nic", ("b",), ())),
        (99,),
        (Memory("hugepages-2Mi", 0, (0,)), Memory("memory", 5, (0, 1))),
    )
    assert placement_of(PodResources("ml", "p", (container,)), CPU_ZONES) == {}


def test_containers_of_a_pod_are_added_up_and_zones_are_in_order_of_their_names() -> None:
    each = ContainerResources((), (0, 2), (Memory("", 4096, (10,)), Memory("hugepages-2Mi", 4096, (2,))))
    placement = placement_of(PodResources("ml", "p", (each, each)), CPU_ZONES)
    written = msgspec.json.decode(annotation_of(placement))
    assert [zone["zone"] for zone in written] == ["node-0", "node-1", "node-10", "node-2"]
    assert written[0]["amount"] == {"cpu": "2"}
    assert written[2]["amount"] == {"memory": "8192"}


def test_cpus_are_found_in_sysfs(tmp_path: Path) -> None:
    root = tmp_path / "devices/system/node"
    for zone, text in (("node0", "0-2,8\n"), ("node1", " 3, 10-11\n"), ("node2", "\n")):
        (root / zone).mkdir(parents=True)
        (root / zone / "cpulist").write_text(text)
    (root / "possible").write_text("0-2")
    assert read_cpu_zones(tmp_path) == {0: 0, 1: 0, 2: 0, 8: 0, 3: 1, 10: 1, 11: 1}


def test_unreadable_cpus_are_told_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCpus, match="devices/system/node: No such file"):
        read_cpu_zones(tmp_path)
    zone = tmp_path / "devices/system/node/node0"
    zone.mkdir(parents=True)
    (zone / "cpulist").write_text("0-x")
    with pytest.raises(UnreadableCpus, match=r"cpulist: '0-x' is neither a CPU"):
        read_cpu_zones(tmp_path)
    (zone / "cpulist").write_text("")
    with pytest.raises(UnreadableCpus, match="no CPUs there"):
        read_cpu_zones(tmp_path)


# The kubelet's socket.


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def message(data: bytes) -> bytes:
    return b"\0" + len(data).to_bytes(4, "big") + data


@asynccontextmanager
async def kubelet(path: Path, *frames: bytes) -> AsyncIterator[list[bytes]]:
    """Answers every call with these frames, in two halves; what it was sent."""
    sent: list[bytes] = []
    answered = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.append(await reader.readuntil(frame(0, 1, 1, bytes(5))))
        data = b"".join(frames)
        for half in (data[: len(data) // 2], data[len(data) // 2 :]):
            writer.write(half)
            await writer.drain()
        sent.append(await reader.read())
        writer.close()
        answered.set()

    server = await asyncio.start_unix_server(serve, str(path))
    async with server:
        yield sent
        await answered.wait()


SETTINGS, HEADERS, TRAILERS = frame(4, 0, 0, b""), frame(1, 4, 1, b"\x88"), frame(1, 5, 1, b"\x88")


async def test_a_call_is_answered_in_several_frames_among_others(tmp_path: Path) -> None:
    data = message(ANSWER)
    padded = frame(0, 8, 1, b"\x03" + data[20:] + bytes(3))
    frames = (
        SETTINGS,
        frame(6, 0, 0, b"8 bytes!"),
        HEADERS,
        frame(0, 0, 1, data[:20]),
        frame(8, 0, 0, bytes(4)),
        padded,
    )
    async with kubelet(tmp_path / "s", *frames, TRAILERS) as sent:
        assert await KubeletSocket(tmp_path / "s").list() == [POD]
    assert sent[0].startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert b"/v1.PodResourcesLister/List" in sent[0]
    assert b"8 bytes!" in sent[1], "a ping must be answered"


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ((SETTINGS, TRAILERS), "the kubelet refuses the call"),
        ((SETTINGS, frame(3, 0, 1, bytes(4))), "breaks the call off"),
        ((frame(7, 0, 0, bytes(8)),), "ends the connection"),
        ((HEADERS, frame(0, 0, 1, message(ANSWER)[:-1]), TRAILERS), "no message in gRPC's plain form"),
        ((HEADERS, frame(0, 0, 1, message(b"\x0b")), TRAILERS), "wire type 3"),
    ],
)
async def test_a_kubelet_that_does_not_answer_is_told_with_its_socket(
    tmp_path: Path, frames: tuple[bytes, ...], words: str
) -> None:
    async with kubelet(tmp_path / "s", *frames):
        with pytest.raises(KubeletUnreachable, match=words) as caught:
            await KubeletSocket(tmp_path / "s").list()
    assert str(tmp_path / "s") in str(caught.value)


async def test_a_socket_that_is_not_there_or_silent_is_told(tmp_path: Path) -> None:
    with pytest.raises(KubeletUnreachable, match="No such file"):
        await KubeletSocket(tmp_path / "none").list()
    async with kubelet(tmp_path / "s", SETTINGS):
        with pytest.raises(KubeletUnreachable, match=r"no answer within 0\.1 s"):
            await KubeletSocket(tmp_path / "s", timeout_seconds=0.1).list()


# The loop.


class Scripted:
    """A kubelet that says what the test wants."""

    def __init__(self) -> None:
        self.pods: list[PodResources] = []
        self.is_down = False
        self.asked = 0

    async def list(self) -> list[PodResources]:
        self.asked += 1
        if self.is_down:
            raise KubeletUnreachable("it is down")
        return self.pods


@asynccontextmanager
async def exporting(rig: Rig, source: Scripted) -> AsyncIterator[None]:
    exporter = Exporter(rig.client, source, CPU_ZONES, rig.clock, Options("n"))
    task = asyncio.create_task(exporter.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def observed(rig: Rig, name: str) -> str | None:
    return (await rig.client.get(Pod, name, NAMESPACE)).metadata.annotations.get(NUMA_OBSERVED_ANNOTATION)


def has(name: str, *cpus: int) -> PodResources:
    return PodResources(NAMESPACE, name, (ContainerResources((), cpus, ()),))


async def a_node(*names: str) -> Rig:
    pods = [pod(name, NAMESPACE).running_on("n").build() for name in names]
    return await make_rig([node("n"), *pods])


@pytest.mark.looptime
async def test_pods_are_annotated_once_and_again_when_something_changes() -> None:
    rig = await a_node("a", "b")
    source = Scripted()
    source.pods = [has("a", 0, 1), has("b"), has("not-there", 2)]
    async with exporting(rig, source):
        await rig.clock.sleep(0.5)
        assert await observed(rig, "a") == '[{"zone":"node-0","amount":{"cpu":"2"}}]'
        assert await observed(rig, "b") is None
        version = (await rig.client.get(Pod, "a", NAMESPACE)).metadata.resourceVersion
        await rig.clock.sleep(10)
        assert (await rig.client.get(Pod, "a", NAMESPACE)).metadata.resourceVersion == version
        source.pods = [has("a", 2)]
        await rig.clock.sleep(1)
        assert await observed(rig, "a") == '[{"zone":"node-1","amount":{"cpu":"1"}}]'


@pytest.mark.looptime
async def test_what_somebody_else_changed_is_repaired_within_a_minute() -> None:
    rig = await a_node("a")
    source = Scripted()
    source.pods = [has("a", 0)]
    async with exporting(rig, source):
        await rig.clock.sleep(0.5)
        await rig.client.patch(
            Pod, "a", {"metadata": {"annotations": {NUMA_OBSERVED_ANNOTATION: "[]"}}}, namespace=NAMESPACE
        )
        await rig.clock.sleep(10)
        assert await observed(rig, "a") == "[]"
        await rig.clock.sleep(55)
        assert await observed(rig, "a") == '[{"zone":"node-0","amount":{"cpu":"1"}}]'


@pytest.mark.looptime
async def test_a_kubelet_that_is_down_is_asked_again() -> None:
    rig = await a_node("a")
    source = Scripted()
    source.is_down = True
    source.pods = [has("a", 0)]
    async with exporting(rig, source):
        await rig.clock.sleep(5)
        assert 4 <= source.asked <= 6
        source.is_down = False
        await rig.clock.sleep(2)
        assert await observed(rig, "a") is not None


def test_the_command_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    assert main(["run", "numa-exporter"]) == 2
    assert "give --node-name, or set NODE_NAME" in capsys.readouterr().err
    assert main(["run", "numa-exporter", "--node-name", "n", "--sysfs-root", str(tmp_path)]) == 2
    assert "devices/system/node: No such file" in capsys.readouterr().err
