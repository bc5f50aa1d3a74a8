"""The embedded API server alone, in a process of its own, for `benchmarks.apiserver`: its CPU and memory are its own.

`python -m benchmarks.apiserver_subject OBJECTS [--data DIR] [--listen | --watchers N,…]`: fills the server with pods;
then either listens, says where, and serves until its input ends, or measures itself in process and says what it found.
Everything is said as lines of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bosket.apiserver import ApiServer
from bosket.apiserver.http.listener import Tls, serve
from bosket.apiserver.persistence.directory import DataDirectory
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.server.in_process import InProcessTransport
from bosket.kube.transport import Request
from bosket.runtime.certificates import make_authority
from bosket.runtime.clock import SystemClock

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TOKEN = "benchmark"
#: Writes under way at once, as of that many clients.
CLIENTS = 16
#: Operations that are measured, by number of watchers: with many of them each is a lot of events.
OPERATIONS = {1: 1_000, 10: 1_000, 100: 300}

Send = Callable[[str, str, bytes, str], Awaitable[None]]


def pod(name: str) -> bytes:
    """A worker as a Job's controller would make it."""
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "0", "controller": True}
    metadata = {
        "name": name,
        "labels": {"kai.scheduler/queue": "team-a", "batch.kubernetes.io/job-name": "work"},
        "annotations": {"kai.scheduler/batch-min-member": "8"},
        "ownerReferences": [owner],
    }
    environment = [{"name": f"VARIABLE_{index}", "value": "value"} for index in range(4)]
    container = {"name": "main", "image": "example.com/work:1", "resources": resources, "env": environment}
    spec = {"restartPolicy": "Never", "schedulerName": "kai-scheduler", "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()


def operations(watchers: int) -> dict[str, list[tuple[str, str, bytes, str]]]:
    """What is measured: method, path, body and content type of each request, by kind of operation."""
    names = [f"watched-by-{watchers}-{index:06d}" for index in range(OPERATIONS[watchers])]
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-000"}
    binding = json.dumps({"apiVersion": "v1", "kind": "Binding", "target": target}).encode()
    patch = json.dumps({"metadata": {"annotations": {"seen": "yes"}}}).encode()
    as_json, as_merge = "application/json", "application/merge-patch+json"
    return {
        "create": [("POST", PODS, pod(name), as_json) for name in names],
        "bind": [("POST", f"{PODS}/{name}/binding", binding, as_json) for name in names],
        "patch": [("PATCH", f"{PODS}/{name}", patch, as_merge) for name in names],
    }


async def in_turns(requests: Iterable[tuple[str, str, bytes, str]], sends: Iterable[Send]) -> None:
    """Each client takes the next request as soon as it has its answer."""
    waiting = iter(requests)

    async def client(send: Send) -> None:
        for request in waiting:
            await send(*request)

    await asyncio.gather(*(client(send) for send in sends))


def sender(transport: InProcessTransport) -> Send:
    async def send(method: str, path: str, body: bytes, content_type: str) -> None:
        headers = {"content-type": content_type, "accept": "application/json", "user-agent": "benchmark/1"}
        answer = await transport.request(Request(method, path, (), headers, body))
        if answer.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {answer.body.decode()}")

    return send


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def main(arguments: argparse.Namespace, data: DataDirectory | None) -> None:
    server = ApiServer(clock=SystemClock(), data=data)
    transport = server.transport()
    sends = [sender(transport)] * CLIENTS
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    await sends[0]("POST", path, json.dumps(account).encode(), "application/json")
    before = resident_bytes()
    filling = (("POST", PODS, pod(f"filling-{index:06d}"), "application/json") for index in range(arguments.objects))
    await in_turns(filling, sends)
    say(bytes_per_object=(resident_bytes() - before) / arguments.objects)
    if arguments.listen:
        authority = make_authority("benchmark")
        tls = Tls(authority.issue("kube-apiserver", server=True, ips=["127.0.0.1"]))
        listener = await serve(server, tls=tls, tokens={TOKEN: User("admin", ("system:masters",))})
        say(port=listener.port, pid=os.getpid())
        await asyncio.to_thread(sys.stdin.read)
        await listener.aclose()
    else:
        for watchers in arguments.watchers.split(","):
            await measure(transport, sends, int(watchers))
    server.close()


async def measure(transport: InProcessTransport, sends: list[Send], watchers: int) -> None:
    seen = 0

    async def watch() -> None:
        nonlocal seen
        query = (("watch", "true"), ("resourceVersionMatch", "NotOlderThan"), ("sendInitialEvents", "false"))
        stream = await transport.stream(Request("GET", PODS, query))
        async for chunk in stream:
            seen += chunk.count(b"\n")

    tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
    await asyncio.sleep(0)
    for operation, requests in operations(watchers).items():
        begin, expected = time.process_time(), seen + len(requests) * watchers
        await in_turns(requests, sends)
        while seen < expected:
            await asyncio.sleep(0)
        say(watchers=watchers, operation=operation, cpu_s=time.process_time() - begin)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def say(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("objects", type=int)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--listen", action="store_true")
    parser.add_argument("--watchers", default="1")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    parsed = parse(sys.argv[1:])
    with nullcontext() if parsed.data is None else DataDirectory(parsed.data) as directory:
        asyncio.run(main(parsed, directory))
