"""Whether a Prometheus that somebody else runs can be reached."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import unquote, urlsplit

from bosket.kube.credentials import Credential, FixedCredential, basic
from bosket.kube.errors import KubeError
from bosket.kube.http import HttpTransport
from bosket.kube.kubeconfig import ClusterConfig
from bosket.kube.transport import Request

_PATH: Final = "/api/v1/status/buildinfo"


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
