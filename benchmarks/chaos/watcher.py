"""Feeds the judge with watch events, through the official Kubernetes client and connections of its own.

One thread a kind lists, watches from there, and lists again when the watch breaks or its version is too old: what is
missing then counts as deleted. One more thread hands the events to the judge, in the order of their arrival.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from pathlib import Path
from typing import Any, Final

import kubernetes
import urllib3

from benchmarks.chaos.judge import Json, Judge

PATHS: Final = {
    "Node": "/api/v1/nodes",
    "Queue": "/apis/scheduling.run.ai/v2/queues",
    "PodGroup": "/apis/scheduling.run.ai/v2alpha2/podgroups",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "Pod": "/api/v1/pods",
}
#: Stands for the type of an event: what went, and what changed, since the last one that was seen.
LISTED: Final = "LISTED"
_WATCH_SECONDS: Final = 120
_QUIET_SECONDS: Final = 150.0
_RETRY_SECONDS: Final = 0.5
_FAULTS: Final = (urllib3.exceptions.HTTPError, kubernetes.client.ApiException, OSError, json.JSONDecodeError)


class Watcher:
    """Follows a cluster until it is closed. `judge` may be read when `lock` is held."""

    def __init__(self, kubeconfig: Path) -> None:
        self.judge = Judge()
        self.lock = threading.Lock()
        self._events: queue.SimpleQueue[tuple[str, str, Any]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._last_event = time.monotonic()
        threading.Thread(target=self._hand_over, daemon=True).start()
        untyped_config: Any = kubernetes.config  # the library's types leave this function out
        for kind, path in PATHS.items():
            api = untyped_config.new_client_from_config(str(kubeconfig))
            threading.Thread(target=self._follow, args=(api, kind, path), daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def quiet_seconds(self) -> float:
        """How long nothing has happened to any object that is followed."""
        return time.monotonic() - self._last_event

    def _hand_over(self) -> None:
        while not self._closed.is_set():
            try:
                kind, event, doc = self._events.get(timeout=1.0)
            except queue.Empty:
                with self.lock:
                    self.judge.tick(time.monotonic())
                continue
            with self.lock:
                if event == LISTED:
                    gone, changed = doc
                    self.judge.see_list(kind, gone, changed, time.monotonic())
                else:
                    self.judge.see(kind, event, doc, time.monotonic())
            if kind != "Node":  # nodes report that they are alive, which is no change
                self._last_event = time.monotonic()

    def _follow(self, api: Any, kind: str, path: str) -> None:
        known: dict[str, Json] = {}
        while not self._closed.is_set():
            try:
                listed = json.loads(_get(api, path).data)
                found = {each["metadata"]["uid"]: each for each in listed["items"]}
                gone = [_unversioned(known[uid]) for uid in known.keys() - found.keys()]
                changed = [_unversioned(doc) for uid, doc in found.items() if _differ(known.get(uid), doc)]
                self._events.put((kind, LISTED, (gone, changed)))
                known = found
                self._watch(api, kind, path, listed["metadata"]["resourceVersion"], known)
            except _FAULTS:
                self._closed.wait(_RETRY_SECONDS)  # the server is being restarted, or paused

    def _watch(self, api: Any, kind: str, path: str, version: str, known: dict[str, Json]) -> None:
        """Until the server ends it or says that the version is too old; a broken connection raises."""
        query = [("watch", "true"), ("resourceVersion", version), ("timeoutSeconds", str(_WATCH_SECONDS))]
        answer = _get(api, path, query)
        rest = b""
        try:
            for chunk in answer.stream(amt=None, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    doc = event["object"]
                    uid = doc["metadata"]["uid"]
                    if event["type"] == "DELETED":
                        known.pop(uid, None)
                    else:
                        known[uid] = doc
                    self._events.put((kind, event["type"], doc))
                if self._closed.is_set():
                    return
        finally:
            answer.release_conn()
            answer.close()


def _differ(old: Json | None, new: Json) -> bool:
    return old is None or old["metadata"].get("resourceVersion") != new["metadata"]["resourceVersion"]


def _unversioned(doc: Json) -> Json:
    """An object that changed, or went, while nobody watched: when that was isn't known."""
    metadata = {name: value for name, value in doc["metadata"].items() if name != "resourceVersion"}
    return {**doc, "metadata": metadata}


def _get(api: Any, path: str, query: list[tuple[str, str]] | None = None) -> urllib3.HTTPResponse:
    """An answer whose body isn't read yet. Raises for any status but 200."""
    method, url, headers, body, form = api.param_serialize(
        "GET",
        path,
        query_params=query or [],
        header_params={"Accept": "application/json"},
        auth_settings=["BearerToken"],
    )
    answer = api.call_api(method, url, headers, body, form, _request_timeout=(5.0, _QUIET_SECONDS)).response
    if answer.status != 200:
        raise kubernetes.client.ApiException(status=answer.status, reason=answer.reason)
    response: urllib3.HTTPResponse = answer
    return response
