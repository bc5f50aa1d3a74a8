"""PrometheusHealth: whether an external Prometheus can be reached.

The reconciler asks as often as it reconciles, which may be many times a second. The Prometheus is probed once per
interval, so that consecutive failures span as many intervals.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final
from urllib.parse import unquote, urlsplit

from bosket.kube.carrier import ClusterConfig
from bosket.kube.credentials import Credential, FixedCredential, basic
from bosket.kube.errors import KubeError
from bosket.kube.http import HttpTransport
from bosket.kube.transport import Request
from bosket.runtime.clock import Clock
from bosket.services.operator.monitoring import ProbeSettings

_PATH: Final = "/api/v1/status/buildinfo"
_EARLY_SECONDS: Final = 0.01


class PrometheusHealth:
    """What the last probe found, and how many in a row found something wrong."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._address = ""
        self._next_at = -math.inf
        #: What is in the way; None if it answered.
        self.problem: str | None = None
        #: Probes in a row that failed, each of them an interval or more after the one before.
        self.failures = 0

    async def look(self, address: str, rules: ProbeSettings) -> float:
        """Probe where it is time to; returns the seconds until the next probe. Another address is probed at once."""
        if address != self._address:
            self._address, self._next_at, self.failures = address, -math.inf, 0
        # A timer may end a little early, by rounding: then it is time all the same, or the next one would last no time.
        if self._next_at - self._clock.monotonic() < _EARLY_SECONDS:
            self._next_at = self._clock.monotonic() + rules.interval_seconds
            self.problem = await probe(address, rules.timeout_seconds)
            self.failures = 0 if self.problem is None else self.failures + 1
        return max(_EARLY_SECONDS, self._next_at - self._clock.monotonic())


async def probe(address: str, timeout_seconds: float) -> str | None:
    """What is in the way; None if it answers. The address may carry user and password, which aren't repeated."""
    try:
        url = urlsplit(address if "://" in address else f"http://{address}")
        port = f":{url.port}" if url.port is not None else ""
    except ValueError as error:
        return f"spec.prometheus.externalPrometheusUrl is no address: {error}"
    if url.scheme not in ("http", "https") or not url.hostname:
        return "spec.prometheus.externalPrometheusUrl must be an address such as http://prometheus:9090"
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    server = f"{url.scheme}://{host}{port}{url.path.rstrip('/')}"
    user = Credential(authorization=basic(unquote(url.username), unquote(url.password or ""))) if url.username else None
    credentials = FixedCredential(user) if user is not None else FixedCredential()
    transport = HttpTransport(ClusterConfig(server=server, credentials=credentials))
    try:
        async with asyncio.timeout(timeout_seconds):
            answer = await transport.request(Request("GET", _PATH))
    except (KubeError, OSError) as error:
        return f"the Prometheus at {server} can't be reached: {error}"
    except TimeoutError:
        return f"the Prometheus at {server} doesn't answer within {timeout_seconds:g} s"
    finally:
        await transport.aclose()
    return None if 200 <= answer.status < 300 else f"the Prometheus at {server} answers with status {answer.status}"
