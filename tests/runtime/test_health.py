"""A process shows its metrics, that it lives, and what keeps it from being ready."""

from __future__ import annotations

import aiohttp
from prometheus_client import CollectorRegistry

from bosket.runtime.health import Address, serve_health
from bosket.runtime.metrics import runtime_metrics


async def fetch(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_ready_only_while_every_check_passes_and_says_which_fails() -> None:
    synced = False
    checks = {"informers": lambda: synced, "webhook": lambda: True}
    async with serve_health(CollectorRegistry(), checks, Address()) as url:
        assert await fetch(f"{url}/healthz") == (200, "ok\n")
        assert await fetch(f"{url}/readyz") == (503, "informers: not ready\nwebhook: ok\n")
        synced = True
        assert await fetch(f"{url}/readyz") == (200, "ok\n")


async def test_metrics_are_those_of_the_registry_in_prometheus_text() -> None:
    registry = CollectorRegistry()
    runtime_metrics(registry).controller("binder").started()
    async with serve_health(registry, {}, Address()) as url:
        assert url.startswith("http://127.0.0.1:")
        status, text = await fetch(f"{url}/metrics")
    assert status == 200
    assert 'controller_runtime_active_workers{controller="binder"} 1.0' in text


def test_the_same_registry_gives_the_same_collectors() -> None:
    registry = CollectorRegistry()
    assert runtime_metrics(registry) is runtime_metrics(registry)
