"""BindExecutor: one attempt at a BindRequest: find pod and node, prepare, bind, finish, or roll back.

An attempt has an outcome (a value) whenever the API server answered. Without an answer it raises `TransportError`: the
result is unknown then, nothing is rolled back, and the next attempt reads the actual state.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bosket.api.core import Node, Pod
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectKey
from bosket.kube.client import Client
from bosket.kube.errors import ApiError, Conflict, NotFound, ServerError, TransportError
from bosket.kube.informer import Informer
from bosket.services.binder.plugin import Attempt, BindPlugin, NotYet, Refused
from bosket.services.binder.verdict import Bound, Failure, Outcome, PutOff, is_done, malformed, settled

_log = logging.getLogger(__name__)

#: Preparations per attempt, when other clients change the pod meanwhile.
_PREPARATIONS: Final = 4


@dataclass(frozen=True, slots=True)
class _Changed:
    """The pod changed after it was prepared, so it was not bound."""

    pod: Pod


class BindExecutor:
    """Carries out requests, with the plugins around each."""

    def __init__(
        self,
        client: Client,
        requests: Informer[BindRequest],
        pods: Informer[Pod],
        nodes: Informer[Node],
        plugins: Sequence[BindPlugin],
    ) -> None:
        self._client = client
        self._requests = requests
        self._pods = pods
        self._nodes = nodes
        self._plugins = sorted(plugins, key=lambda plugin: (-plugin.priority, plugin.name))
        self._resource_types = frozenset().union(*(plugin.resource_types for plugin in self._plugins))

    async def attempt(self, request: BindRequest) -> Outcome | PutOff:
        """One attempt. Raises `TransportError` when its result is unknown."""
        refused = malformed(request, self._resource_types)
        if refused is not None:
            return refused
        pod = await self._find_pod(ObjectKey(request.metadata.namespace, request.spec.podName))
        if pod is None:
            return Failure(f"pod {request.metadata.namespace}/{request.spec.podName} was not found")
        outcome = settled(request, pod)
        if isinstance(outcome, Failure):
            return outcome
        node = await self._find_node(request.spec.selectedNode)
        if isinstance(outcome, Bound):
            # Bound by an attempt that was interrupted after the bind: only `post_bind` and the report are missing.
            if node is not None:
                await self._finish(Attempt(request, pod, node))
            return outcome
        if node is None:
            return Failure(f"node {request.spec.selectedNode} was not found", pod=pod)
        return await self._bind(Attempt(request, pod, node))

    async def _bind(self, attempt: Attempt) -> Outcome | PutOff:
        begun: dict[str, BindPlugin] = {}
        try:
            outcome = await self._prepare_and_assign(attempt, begun)
        except TransportError:
            raise
        except NotYet as later:
            return PutOff(later.seconds)
        except Refused as refused:
            outcome = Failure(str(refused), final=refused.final, pod=attempt.pod)
        except ApiError as error:
            outcome = Failure(str(error), pod=attempt.pod)
        except Exception as error:
            # Plugins may raise anything; a defect in one must not skip the rollback.
            _log.warning("bind failed", extra={"request": str(attempt.request.key), "error": str(error)}, exc_info=True)
            outcome = Failure(str(error) or type(error).__name__, pod=attempt.pod)
        if isinstance(outcome, Failure):
            outcome = await self._unless_bound(attempt, outcome)
        if isinstance(outcome, Failure):
            await self._roll_back(attempt, tuple(begun.values()))
        else:
            await self._finish(attempt)
        return outcome

    async def _prepare_and_assign(self, attempt: Attempt, begun: dict[str, BindPlugin]) -> Outcome:
        """Prepares and binds; starts again when the pod changed in between, a limited number of times."""
        for _ in range(_PREPARATIONS):
            if not self._is_wanted(attempt.request):
                return Failure(f"BindRequest {attempt.request.key} was deleted", final=True, pod=attempt.pod)
            for plugin in self._plugins:
                begun[plugin.name] = plugin
                await plugin.pre_bind(attempt)
            outcome = await self._assign(attempt)
            if not isinstance(outcome, _Changed):
                return outcome
            attempt.pod = outcome.pod
        return Failure(f"pod {attempt.pod.key} changes whenever it is about to be bound", pod=attempt.pod)

    async def _assign(self, attempt: Attempt) -> Outcome | _Changed:
        """Binds the pod. After an error by which the bind may have taken effect, the pod is read."""
        pod, node = attempt.pod, attempt.node.metadata.name
        try:
            await self._client.bind(
                pod, node, annotations=attempt.annotations, resource_version=attempt.pod_version or None
            )
        except (Conflict, ServerError, TransportError) as error:
            actual = await self._read_pod(pod.key)
            if actual is None:
                return Failure(f"pod {pod.key} was not found", final=True)
            outcome = settled(attempt.request, actual)
            if outcome is None and attempt.pod_version not in ("", actual.metadata.resourceVersion):
                return _Changed(actual)
            return outcome or Failure(str(error), pod=actual)
        except NotFound:
            return Failure(f"pod {pod.key} was not found", final=True)
        return Bound(pod)

    async def _unless_bound(self, attempt: Attempt, failure: Failure) -> Outcome:
        """Turns a failure into success if the pod is bound to the node after all, by another binder: nothing must be
        rolled back then."""
        actual = await self._read_pod(attempt.pod.key)
        outcome = settled(attempt.request, actual) if actual is not None else None
        return outcome if isinstance(outcome, Bound) else failure

    async def _finish(self, attempt: Attempt) -> None:
        for plugin in self._plugins:
            try:
                await plugin.post_bind(attempt)
            except Exception as error:
                self._log_plugin("post_bind failed", plugin, attempt, error)

    async def _roll_back(self, attempt: Attempt, begun: Sequence[BindPlugin]) -> None:
        for plugin in reversed(begun):
            try:
                await plugin.rollback(attempt)
            except Exception as error:
                self._log_plugin("rollback failed", plugin, attempt, error)

    def _log_plugin(self, message: str, plugin: BindPlugin, attempt: Attempt, error: Exception) -> None:
        _log.error(
            message,
            extra={"plugin": plugin.name, "request": str(attempt.request.key), "error": str(error)},
            exc_info=error,
        )

    def _is_wanted(self, request: BindRequest) -> bool:
        """Whether the request still exists, as far as the store shows; the scheduler deletes requests that it decides
        again."""
        known = self._requests.store.get(request.key)
        return known is not None and known.metadata.uid == request.metadata.uid and not is_done(known)

    async def _find_pod(self, key: ObjectKey) -> Pod | None:
        # The scheduler's watch may be ahead of ours.
        return self._pods.store.get(key) or await self._read_pod(key)

    async def _read_pod(self, key: ObjectKey) -> Pod | None:
        try:
            return await self._client.get(Pod, key.name, key.namespace)
        except NotFound:
            return None

    async def _find_node(self, name: str) -> Node | None:
        known = self._nodes.store.get(ObjectKey("", name))
        if known is not None:
            return known
        try:
            return await self._client.get(Node, name)
        except NotFound:
            return None
