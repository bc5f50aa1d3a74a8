"""`bosket run reservation` as a pod runs it: a process with an environment, NVML, and a signal at its end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from bosket.api.core import Container, Pod, PodSpec
from bosket.api.keys import RESERVED_GPU_ANNOTATION
from bosket.api.object import ObjectMeta
from bosket.cli.main import main
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.kube.client import Client

#: As much of NVML as is used, with one GPU.
_NVML = """
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int status) { return "no such luck"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
static int device;
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = &device; return index ? 2 : 0; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) {
  if (handle != &device || length < 10) return 2;
  strcpy(text, "GPU-real");
  return 0;
}
"""


@pytest.fixture
def library_folder(tmp_path: Path) -> Path:
    """Where a libnvidia-ml.so.1 is, as the NVIDIA runtime puts one into containers."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make a library with")
    folder = tmp_path / "lib"
    folder.mkdir()
    source = folder / "nvml.c"
    source.write_text(_NVML)
    library = folder / "libnvidia-ml.so.1"
    assert os.spawnv(os.P_WAIT, compiler, [compiler, "-shared", "-fPIC", "-o", str(library), str(source)]) == 0
    return folder


async def reported_device(client: Client, pod: Pod) -> str:
    """What the pod says, as soon as it does."""
    changes = client.watch(Pod, "default", resource_version=pod.metadata.resourceVersion)
    async with asyncio.timeout(120), aclosing(changes):
        async for change in changes:
            device = change.object.metadata.annotations.get(RESERVED_GPU_ANNOTATION) if change.object else None
            if device:
                return device
    raise AssertionError("the watch ended")


async def test_the_pod_says_its_device_and_ends_at_once_when_told(tmp_path: Path, library_folder: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with EmbeddedCluster(nodes=0, services=(), listen=Listen(kubeconfig=kubeconfig)) as cluster:
        client = cluster.client()
        created = await client.create(
            Pod(
                metadata=ObjectMeta(name="r", namespace="default"),
                spec=PodSpec(containers=(Container(name="main", image="img"),)),
            )
        )
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("bosket"),
            "run",
            "reservation",
            f"--kubeconfig={kubeconfig}",
            env={
                **os.environ,
                "POD_NAME": "r",
                "POD_NAMESPACE": "default",
                "LD_LIBRARY_PATH": str(library_folder),
            },
        )
        try:
            assert await reported_device(client, created) == "GPU-real"
            told = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
            assert time.monotonic() - told < 30, "a kubelet would have killed it"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def test_outside_of_a_pod_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("POD_NAME", raising=False)
    monkeypatch.setenv("POD_NAMESPACE", "x")
    assert main(["run", "reservation"]) == 1
    assert "environment variable POD_NAME is not set" in capsys.readouterr().err


def test_it_runs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "reservation", "binder"]) == 2
    assert 'service "reservation" runs alone' in capsys.readouterr().err
