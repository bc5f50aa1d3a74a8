"""kubectl against the listener: the daily verbs, without any controller or service behind them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bosket.apiserver import ApiServer
from bosket.apiserver.http.listener import Tls, serve
from bosket.apiserver.request.resource_request import User
from bosket.runtime.certificates import make_authority
from bosket.runtime.clock import SystemClock
from tests.apiserver.world import DEFINITIONS, MERGE, WIDGETS, World, definition, pod

KUBECTL = shutil.which("kubectl")
pytestmark = [pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH"), pytest.mark.slow]


@dataclass
class Terminal:
    """A shell with kubectl in it."""

    world: World
    environment: dict[str, str]

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        assert KUBECTL is not None
        return await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
        )

    async def kubectl(self, *arguments: str, stdin: Any = None, code: int = 0) -> str:
        """What it prints, errors included."""
        process = await self.start(*arguments)
        text = stdin if isinstance(stdin, str) else json.dumps(stdin) if stdin is not None else ""
        async with asyncio.timeout(120):
            output, errors = await process.communicate(text.encode())
        assert process.returncode == code, f"{arguments}: {output.decode()}{errors.decode()}"
        return output.decode() + errors.decode()


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    world = World()
    world.server = ApiServer(clock=SystemClock())
    world.transport = world.server.transport()
    authority = make_authority("test")
    key_pair = authority.issue("kube-apiserver", server=True, ips=["127.0.0.1"])
    listener = await serve(world.server, tls=Tls(key_pair), tokens={"secret": User("admin", ("system:masters",))})
    certificate = base64.b64encode(authority.cert_pem).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": listener.url, "certificate-authority-data": certificate}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}
    async with world.running():
        yield Terminal(world, environment)
    await listener.aclose()


def deployment(replicas: int = 2, image: str = "busybox:1") -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "d"}}, "template": template},
    }


async def test_apply_creates_then_changes_then_leaves_alone(terminal: Terminal) -> None:
    assert "deployment.apps/d created" in await terminal.kubectl("apply", "-f", "-", stdin=deployment())
    assert "deployment.apps/d unchanged" in await terminal.kubectl("apply", "-f", "-", stdin=deployment())
    changed = deployment(image="busybox:2")
    assert "busybox:2" in await terminal.kubectl("diff", "-f", "-", stdin=changed, code=1)
    assert "deployment.apps/d configured" in await terminal.kubectl("apply", "-f", "-", stdin=changed)
    found = await terminal.kubectl("get", "deploy", "d", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
    assert found == "busybox:2"


async def test_apply_says_which_field_is_not_there(terminal: Terminal) -> None:
    manifest = deployment()
    manifest["spec"]["template"]["spec"]["colour"] = "red"
    output = await terminal.kubectl("apply", "-f", "-", stdin=manifest, code=1)
    assert 'unknown field "spec.template.spec.colour"' in output
    assert "created" in await terminal.kubectl("apply", "--validate=ignore", "-f", "-", stdin=manifest)


async def test_apply_on_the_server_reports_conflicts_and_can_force(terminal: Terminal) -> None:
    await terminal.kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=deployment(2))
    arguments = ("apply", "--server-side", "--field-manager=two", "-f", "-")
    output = await terminal.kubectl(*arguments, stdin=deployment(3), code=1)
    assert 'conflict with "one"' in output
    assert ".spec.replicas" in output
    assert "serverside-applied" in await terminal.kubectl(*arguments, "--force-conflicts", stdin=deployment(3))


async def test_get_shows_tables_wide_ones_and_changes(terminal: Terminal) -> None:
    await terminal.kubectl("apply", "-f", "-", stdin=pod("a", nodeName="n"))
    header, row = (await terminal.kubectl("get", "pods", "-o", "wide")).splitlines()
    assert header.split()[:6] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"]
    assert row.split()[:4] == ["a", "0/1", "Pending", "0"]
    process = await terminal.start("get", "pods", "-w", "--no-headers")
    assert process.stdout is not None
    async with asyncio.timeout(120):
        assert (await process.stdout.readline()).split()[2] == b"Pending"
        body = {"status": {"phase": "Running"}}
        await terminal.world.ok("PATCH", "/api/v1/namespaces/default/pods/a/status", body, MERGE)
        assert (await process.stdout.readline()).split()[2] == b"Running"
    process.terminate()
    await process.communicate()


async def test_describe_shows_the_object_and_its_events(terminal: Terminal) -> None:
    await terminal.kubectl("apply", "-f", "-", stdin=pod("a"))
    found = await terminal.world.ok("GET", "/api/v1/namespaces/default/pods/a")
    involved = {"kind": "Pod", "name": "a", "namespace": "default", "uid": found["metadata"]["uid"]}
    event = {"metadata": {"name": "e"}, "involvedObject": involved, "reason": "Waiting", "message": "no room yet"}
    await terminal.world.ok("POST", "/api/v1/namespaces/default/events", {**event, "type": "Warning"})
    output = await terminal.kubectl("describe", "pod", "a")
    assert "QoS Class:         BestEffort" in output or "QoS Class:" in output
    assert "no room yet" in output
    assert "Waiting" in await terminal.kubectl("get", "events")


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", '{"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}'),
        ("merge", '{"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}'),
        ("json", '[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "new"}]'),
    ],
)
async def test_patch_in_all_formats(terminal: Terminal, kind: str, patch: str) -> None:
    await terminal.kubectl("apply", "-f", "-", stdin=deployment())
    assert "patched" in await terminal.kubectl("patch", "deploy", "d", "--type", kind, "-p", patch)
    assert "new" in await terminal.kubectl("get", "deploy", "d", "-o", "yaml")


async def test_scale_label_annotate_set_and_edit(terminal: Terminal) -> None:
    await terminal.kubectl("apply", "-f", "-", stdin=deployment())
    assert "scaled" in await terminal.kubectl("scale", "deploy", "d", "--replicas=5")
    assert "labeled" in await terminal.kubectl("label", "deploy", "d", "team=a")
    assert "annotated" in await terminal.kubectl("annotate", "deploy", "d", "note=b")
    assert "image updated" in await terminal.kubectl("set", "image", "deploy/d", "c=busybox:9")
    terminal.environment["KUBE_EDITOR"] = "sed -i s/replicas:.5/replicas:\\ 7/"
    assert "edited" in await terminal.kubectl("edit", "deploy", "d")
    found = await terminal.world.ok("GET", "/apis/apps/v1/namespaces/default/deployments/d")
    assert found["spec"]["replicas"] == 7
    assert found["metadata"]["labels"] == {"team": "a"}
    assert found["metadata"]["annotations"]["note"] == "b"
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox:9"


async def test_wait_and_rollout_end_when_the_status_says_so(terminal: Terminal) -> None:
    await terminal.kubectl("apply", "-f", "-", stdin=deployment())
    waiting = asyncio.create_task(terminal.kubectl("wait", "--for=condition=Available", "deploy/d", "--timeout=120s"))
    rolling = asyncio.create_task(terminal.kubectl("rollout", "status", "deploy/d", "--timeout=120s"))
    status = {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "conditions": [{"type": "Available", "status": "True"}],
    }
    await terminal.world.ok("PATCH", "/apis/apps/v1/namespaces/default/deployments/d/status", {"status": status}, MERGE)
    assert "condition met" in await waiting
    assert "successfully rolled out" in await rolling


async def test_delete_waits_until_it_is_done(terminal: Terminal) -> None:
    await terminal.kubectl("apply", "-f", "-", stdin=deployment())
    assert "deleted" in await terminal.kubectl("delete", "deploy", "d", "--cascade=foreground")
    assert "NotFound" in await terminal.kubectl("get", "deploy", "d", code=1)
    await terminal.kubectl("apply", "-f", "-", stdin=pod("a", nodeName="n"))
    deleting = asyncio.create_task(terminal.kubectl("delete", "pod", "a"))
    events = await terminal.world.watch("/api/v1/namespaces/default/pods")
    while "deletionTimestamp" not in (await events.next())["object"]["metadata"]:
        pass
    await terminal.world.ok("DELETE", "/api/v1/namespaces/default/pods/a", {"gracePeriodSeconds": 0})
    assert "deleted" in await deleting


async def test_custom_resources_are_found_by_short_name_explained_and_printed(terminal: Terminal) -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer", "description": "How large it is."}}}
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    await terminal.world.ok("POST", DEFINITIONS, definition(schema, additionalPrinterColumns=columns))
    await terminal.world.ok("POST", WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 3}})
    header, row = (await terminal.kubectl("get", "wd")).splitlines()
    assert (header.split(), row.split()) == (["NAME", "SIZE"], ["w", "3"])
    assert "How large it is." in await terminal.kubectl("explain", "widget.spec.size")
    assert "containers" in await terminal.kubectl("explain", "pod.spec", "--recursive")
