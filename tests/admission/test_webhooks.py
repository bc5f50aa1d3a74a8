"""The service over TLS, as an API server sees it: reviews, limits, certificates, registration."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from bosket.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from bosket.api.coordination import Lease
from bosket.api.core import Namespace, Secret
from bosket.api.crd import crd_manifests
from bosket.api.kai import PodGroup, PodGroupSpec
from bosket.api.object import ObjectMeta
from bosket.apiserver import ApiServer
from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.kube.patch import apply_json_patch
from bosket.runtime.clock import LoopClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment, run_services
from bosket.runtime.webhook import server
from bosket.runtime.webhook.registration import Reach, register
from bosket.runtime.webhook.serving_certificate import Names, from_secret, renewed
from bosket.services.admission.options import Options, PodRules
from bosket.services.admission.pod import may_be_refused
from bosket.services.admission.registration import configurations
from bosket.services.admission.webhook_service import admission_service
from bosket.testing.build import queue
from bosket.testing.faults import Fault, FaultyTransport, matching, refuse
from tests.admission.pods import SHARING

NAMESPACE = "kai-scheduler"
SECRET = "kai-admission-webhook-tls-secret"
MUTATE, VALIDATE = "/mutate--v1-pod", "/validate--v1-pod"
HEAD = b"POST /mutate--v1-pod HTTP/1.1\r\nHost: x\r\n"


DEFINITIONS = [
    each
    for each in crd_manifests()
    if each["spec"]["group"] == "scheduling.run.ai" and each["spec"]["names"]["kind"] in ("Queue", "PodGroup")
]


class SteppedClock(LoopClock):
    """The loop's time, with steps: sleeping ends when the test says so, and the date is the test's."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0
        self._woken = asyncio.Event()

    def now(self) -> float:
        return time.time() + self.ahead

    async def sleep(self, seconds: float) -> None:
        if seconds < 5:
            return await super().sleep(seconds)
        self._woken.clear()
        await self._woken.wait()
        return None

    def wake(self) -> None:
        self._woken.set()


class Site:
    """A cluster without webhooks of its own, and replicas of the service."""

    def __init__(self) -> None:
        self.server = ApiServer(clock=LoopClock())
        self.client = Client(self.server.transport())

    async def prepare(self) -> None:
        for each in DEFINITIONS:
            await self.client.create(each)
        await self.client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))

    @asynccontextmanager
    async def replica(
        self, clock: SteppedClock, options: Options | None = None, *faults: Fault
    ) -> AsyncIterator[Replica]:
        transport = FaultyTransport(self.server.transport())
        for fault in faults:
            transport.add(fault)
        client = Client(transport)
        metrics = CollectorRegistry()
        env = Environment(client, Informers(client), clock, EventRecorder(client, clock, "t"), metrics, NAMESPACE)
        service = admission_service(env, options or Options(pods=SHARING, port=0, url="https://127.0.0.1:1"))
        task = asyncio.create_task(run_services(env, [service], leader_election=False))
        try:
            async with asyncio.timeout(120):
                while not service.url or not await self.registered():
                    assert not task.done(), task.exception()
                    await asyncio.sleep(0.01)
            yield Replica(service.url, metrics)
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def registered(self) -> MutatingWebhookConfiguration | None:
        found = (await self.client.list(MutatingWebhookConfiguration)).items
        return found[0] if found else None

    async def trusted(self) -> str:
        configuration = await self.registered()
        assert configuration is not None
        return base64.b64decode(configuration.webhooks[0].clientConfig.caBundle).decode()


class Replica:
    def __init__(self, url: str, metrics: CollectorRegistry) -> None:
        self.url = url
        self.metrics = metrics

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.get_sample_value(name, labels)

    async def post(self, path: str, body: Any, trusted: str, method: str = "POST") -> tuple[int, Any]:
        """Status and answer, on a new connection that trusts nobody else."""
        context = ssl.create_default_context(cadata=trusted)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.request(method, self.url + path, data=io.BytesIO(data)) as response,
        ):
            text = await response.text()
            return response.status, json.loads(text) if response.content_type == "application/json" else text

    async def connect(self, trusted: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self.url.removeprefix("https://").split(":")
        return await asyncio.open_connection(host, int(port), ssl=ssl.create_default_context(cadata=trusted))

    async def certificate(self, trusted: str) -> bytes:
        _, writer = await self.connect(trusted)
        try:
            peer = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.transport.abort()
        assert isinstance(peer, bytes)
        return peer


def document(annotations: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "annotations": annotations, "creationTimestamp": None, **metadata},
        "spec": {
            "schedulerName": "kai-scheduler",
            "fromTheFuture": {"keep": "this"},
            "containers": [{"name": "main", "image": "i", "env": [{"name": "GPU_PORTION", "value": "9"}], "new": 1}],
        },
    }


def review(
    obj: Any, *, operation: str = "CREATE", old: Any = None, kind: str = "Pod", **request: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": "", "version": "v1", "kind": kind},
            "operation": operation,
            "namespace": "ml",
            "name": "train",
            "object": obj,
            "oldObject": old,
            **request,
        },
    }


@pytest.fixture
async def site() -> Site:
    site = Site()
    await site.prepare()
    return site


async def test_a_good_pod_is_completed_by_a_patch_that_leaves_the_unknown_alone(site: Site) -> None:
    async with site.replica(SteppedClock()) as replica:
        before = document({"gpu-fraction": "0.5"})
        status, answer = await replica.post(MUTATE, review(before), await site.trusted())
        assert status == 200
        response = answer["response"]
        assert (response["uid"], response["allowed"], response["patchType"]) == ("u-1", True, "JSONPatch")
        after = apply_json_patch(before, json.loads(base64.b64decode(response["patch"])))
        (main,) = after["spec"]["containers"]
        assert [each["name"] for each in main["env"]] == ["NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"]
        assert (main["new"], after["spec"]["fromTheFuture"]) == (1, {"keep": "this"})
        assert after["spec"]["runtimeClassName"] == "nvidia"
        # Asked again, as after another webhook's change, it has nothing to add; and it is admitted.
        _, again = await replica.post(MUTATE, review(after), await site.trusted())
        assert again["response"] == {"uid": "u-1", "allowed": True}
        _, checked = await replica.post(VALIDATE, review(after), await site.trusted())
        assert checked["response"] == {"uid": "u-1", "allowed": True}


async def test_a_bad_pod_is_refused_with_the_sentence(site: Site) -> None:
    async with site.replica(SteppedClock()) as replica:
        bad = review(document({"gpu-fraction": "1.5"}))
        _, unchanged = await replica.post(MUTATE, bad, await site.trusted())
        assert unchanged["response"] == {"uid": "u-1", "allowed": True}
        _, answer = await replica.post(VALIDATE, bad, await site.trusted())
        response = answer["response"]
        assert response["allowed"] is False
        assert response["status"]["code"] == 403
        message = response["status"]["message"]
        assert message.startswith('Pod ml/train: annotation gpu-fraction is "1.5": it must be a number above 0')
        assert response["status"]["details"]["causes"][0]["field"] == "metadata.annotations[gpu-fraction]"
        assert replica.value("bosket_admission_refusals_total", webhook=VALIDATE) == 1
        assert replica.value("controller_runtime_webhook_requests_total", webhook=VALIDATE, code="200") == 1
        assert replica.value("controller_runtime_webhook_requests_in_flight", webhook=VALIDATE) == 0


async def test_a_pod_without_a_name_yet_is_spoken_of_by_its_beginning(site: Site) -> None:
    async with site.replica(SteppedClock()) as replica:
        bad = review(document({"gpu-fraction": "2"}, generateName="train-"), name="")
        _, answer = await replica.post(VALIDATE, bad, await site.trusted())
        assert answer["response"]["status"]["message"].startswith("Pod ml/train-…: ")


async def test_an_update_is_judged_by_what_it_changes(site: Site) -> None:
    async with site.replica(SteppedClock()) as replica:
        bad, good = document({"gpu-fraction": "2"}), document({"gpu-fraction": "0.5"})
        for old, new, allowed in ((bad, bad, True), (good, bad, False), (bad, good, True)):
            asked = review(new, operation="UPDATE", old=old)
            _, answer = await replica.post(VALIDATE, asked, await site.trusted())
            assert answer["response"]["allowed"] is allowed


async def test_queues_are_judged_with_those_that_there_are(site: Site) -> None:
    await site.client.create(queue("b", parent="a"))
    async with site.replica(SteppedClock()) as replica:
        path = "/validate-scheduling-run-ai-v2-queue"
        circle = json.loads(msgspec.json.encode(queue("a", parent="b")))
        _, answer = await replica.post(path, review(circle, kind="Queue"), await site.trusted())
        assert "would be its own ancestor (a → b → a)" in answer["response"]["status"]["message"]


async def test_a_queue_goes_unless_jobs_run_in_it_or_below_it_at_this_moment(site: Site) -> None:
    """Queues below it are no obstacle, nor is a status that is out of date."""
    await site.client.create(queue("b", parent="a"))
    await site.client.create(Namespace(metadata=ObjectMeta(name="ml")))
    metadata = ObjectMeta(name="train", namespace="ml")
    await site.client.create(PodGroup(metadata=metadata, spec=PodGroupSpec(queue="b", minMember=1)))
    used = json.loads(msgspec.json.encode(queue("a"))) | {"status": {"allocated": {"cpu": "4"}, "childQueues": ["b"]}}
    asked = review(None, operation="DELETE", old=used, kind="Queue", namespace="", name="a")
    path = "/validate-scheduling-run-ai-v2-queue"
    async with site.replica(SteppedClock()) as replica:
        _, answer = await replica.post(path, asked, await site.trusted())
        assert answer["response"]["allowed"] is True
        assert answer["response"]["warnings"][0].startswith('queues below "a" ("b") can\'t be used without it')
        running = {"status": {"resourcesStatus": {"allocated": {"cpu": "4"}}}}
        await site.client.patch(PodGroup, "train", running, namespace="ml", subresource="status")
        _, answer = await replica.post(path, asked, await site.trusted())
        message = answer["response"]["status"]["message"]
        assert message.startswith("Queue a: cannot delete queue a: it has child queues [b], and jobs of it are running")


async def test_a_queue_that_cannot_be_judged_is_an_error_for_the_failure_policy(site: Site) -> None:
    used = json.loads(msgspec.json.encode(queue("a"))) | {"status": {"allocated": {"cpu": "4"}}}
    asked = review(None, operation="DELETE", old=used, kind="Queue", namespace="", name="a")
    fault = refuse(matching("GET", "/podgroups"), 403, times=None)
    async with site.replica(SteppedClock(), None, fault) as replica:
        found, text = await replica.post("/validate-scheduling-run-ai-v2-queue", asked, await site.trusted())
        assert (found, "the cluster can't be asked" in text) == (503, True)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "not an AdmissionReview"),
        (b"{", 400, "not an AdmissionReview"),
        (b"\xff\xfe", 400, "not an AdmissionReview"),
        (b"[" * 100_000, 400, "not an AdmissionReview"),
        (b"[]", 400, "not an AdmissionReview"),
        (b"{}", 400, "expected admission.k8s.io/v1"),
        (b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}', 400, "v1beta1"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', 400, "without a request"),
        (b" " * (7 * 1024 * 1024 + 1), 413, "bytes"),
    ],
)
async def test_what_is_no_review_is_an_error(site: Site, body: bytes, status: int, words: str) -> None:
    async with site.replica(SteppedClock()) as replica:
        found, text = await replica.post(MUTATE, body, await site.trusted())
        assert found == status
        assert words in text
        assert replica.value("controller_runtime_webhook_requests_total", webhook=MUTATE, code=str(status)) == 1


@pytest.mark.parametrize("document", [None, [], "x", {"spec": 7}, {"spec": {"containers": [{"name": 3}]}}])
async def test_what_is_no_pod_is_refused(site: Site, document: Any) -> None:
    async with site.replica(SteppedClock()) as replica:
        for path in (MUTATE, VALIDATE):
            _, answer = await replica.post(path, review(document), await site.trusted())
            assert "can't be read as a Pod" in answer["response"]["status"]["message"]


async def test_there_is_nothing_else(site: Site) -> None:
    async with site.replica(SteppedClock()) as replica:
        assert (await replica.post("/metrics", b"", await site.trusted()))[0] == 404
        assert (await replica.post(MUTATE, b"", await site.trusted(), method="GET"))[0] == 405


@pytest.mark.parametrize(
    ("constant", "sent", "answer"),
    [
        ("IDLE_SECONDS", b"", b""),
        ("IDLE_SECONDS", HEAD, b""),
        (
            "REQUEST_SECONDS",
            b"POST /mutate--v1-pod HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
            b"HTTP/1.1 503 ",
        ),
    ],
)
async def test_who_says_nothing_or_not_all_is_not_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch, constant: str, sent: bytes, answer: bytes
) -> None:
    monkeypatch.setattr(server, constant, 0.2)
    async with site.replica(SteppedClock()) as replica:
        reader, writer = await replica.connect(await site.trusted())
        writer.write(sent)
        async with asyncio.timeout(120):
            got = await reader.read()
        writer.transport.abort()
        assert got.startswith(answer)
        assert bool(got) == bool(answer)


async def test_many_at_once_are_all_answered(site: Site) -> None:
    async with site.replica(SteppedClock()) as replica:
        trusted = await site.trusted()
        body = review(document({"gpu-memory": "4096"}))
        answers = await asyncio.gather(*(replica.post(MUTATE, body, trusted) for _ in range(60)))
        assert {status for status, _ in answers} == {200}


async def test_replicas_agree_on_a_certificate_and_renew_it_without_a_restart(site: Site) -> None:
    clocks = SteppedClock(), SteppedClock()
    async with site.replica(clocks[0]) as first, site.replica(clocks[1]) as second:
        trusted = await site.trusted()
        before = await first.certificate(trusted)
        assert await second.certificate(trusted) == before
        for clock in clocks:  # time passes
            clock.ahead = 300 * 86400.0
        clocks[0].wake()
        await eventually(lambda: changed(first, trusted, before))
        after = await first.certificate(trusted)
        clocks[1].ahead = 0.0  # which sees the new one in the Secret though its own is not due by its clock
        clocks[1].wake()
        await eventually(lambda: changed(second, trusted, before))
        assert await second.certificate(trusted) == after
        assert await site.trusted() == trusted  # it is the same authority's


async def test_a_new_authority_is_told_to_the_api_server(site: Site) -> None:
    clock = SteppedClock()
    async with site.replica(clock):
        trusted = await site.trusted()
        clock.ahead = 3300 * 86400.0
        clock.wake()

        async def told() -> bool:
            return await site.trusted() != trusted

        await eventually(told)
        assert trusted in await site.trusted()


async def test_a_secret_of_kais_operator_is_completed(site: Site) -> None:
    """Which has a certificate that is its own authority, and no authority's key."""
    serving = renewed(None, Names(dns=("admission.kai-scheduler.svc",)), 0.0)
    assert serving is not None
    data = {"tls.crt": base64.b64encode(serving.key_pair.cert_pem).decode(), "other": "a2VwdA=="}
    await site.client.create(Secret(metadata=ObjectMeta(name=SECRET, namespace=NAMESPACE), data=data))
    async with site.replica(SteppedClock()) as replica:
        secret = await site.client.get(Secret, SECRET, NAMESPACE)
        assert from_secret(secret.data) is not None
        assert secret.data["other"] == "a2VwdA=="
        assert await replica.certificate(await site.trusted())


async def test_a_registration_that_was_changed_is_mended(site: Site) -> None:
    clock = SteppedClock()
    async with site.replica(clock):
        name = "validating-kai-admission"
        await site.client.patch(ValidatingWebhookConfiguration, name, {"webhooks": []})
        await site.client.delete(MutatingWebhookConfiguration, "mutating-kai-admission")
        clock.wake()

        async def recovered() -> bool:
            both = await site.client.get(ValidatingWebhookConfiguration, name)
            return await site.registered() is not None and len(both.webhooks) == 2

        await eventually(recovered)


async def test_what_cannot_be_kept_up_is_tried_again_while_the_webhooks_answer(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteppedClock()
    forbidden = refuse(matching("GET", "validatingwebhookconfigurations"), 403, message="not allowed to look", times=2)
    async with site.replica(clock, None, forbidden) as replica:
        trusted = await site.trusted()
        status, _ = await replica.post(MUTATE, review(document({})), trusted)
        assert status == 200

        async def counted() -> bool:
            return replica.value("bosket_admission_upkeep_failures_total", service="admission") == 1

        await eventually(counted)
        assert any("not allowed to look" in getattr(each, "error", "") for each in caplog.records)

        async def registered() -> bool:
            clock.wake()
            return len((await site.client.list(ValidatingWebhookConfiguration)).items) == 3

        await eventually(registered)


async def test_replicas_that_start_at_once_end_up_with_one_certificate(site: Site) -> None:
    clocks = [SteppedClock() for _ in range(4)]
    async with AsyncExitStack() as stack:
        replicas = await asyncio.gather(*(stack.enter_async_context(site.replica(each)) for each in clocks))
        trusted = await site.trusted()
        shown = {await each.certificate(trusted) for each in replicas}
        assert len(shown) == 1


async def test_a_registration_that_is_right_is_not_written(site: Site) -> None:
    async with site.replica(SteppedClock()):
        configuration = await site.registered()
        assert configuration is not None
        assert await register(site.client, [configuration]) == []


async def test_configurations_that_others_make_are_filled_in_and_not_made(site: Site) -> None:
    await site.client.create(MutatingWebhookConfiguration(metadata=ObjectMeta(name="mutating-kai-admission")))
    options = Options(pods=SHARING, port=0, creates_configurations=False)
    async with site.replica(SteppedClock(), options):

        async def filled_in() -> bool:
            found = await site.registered()
            return found is not None and len(found.webhooks) == 2

        await eventually(filled_in)
        assert (await site.client.list(ValidatingWebhookConfiguration)).items == []


async def test_pods_are_asked_about_by_kais_rules(site: Site) -> None:
    options = Options(pods=SHARING, port=0, queue_label_selector=True, pod_label_selector={"team": "a"})
    async with site.replica(SteppedClock(), options):
        configuration = await site.registered()
        assert configuration is not None
        assert configuration.metadata.name == "mutating-kai-admission"
        policy, webhook = configuration.webhooks
        assert policy.name == "namespace-policy.admission.kai-scheduler.svc"
        assert policy.namespaceSelector is not None
        assert policy.namespaceSelector.matchExpressions[-1].values == ("kai-scheduler",)
        assert [each.name for each in policy.matchConditions] == ["names-no-scheduler", "is-no-daemon"]
        assert webhook.name == "admission.kai-scheduler.svc"
        service = webhook.clientConfig.service
        assert service is not None
        assert (service.name, service.namespace, service.path) == ("admission", NAMESPACE, MUTATE)
        assert (webhook.failurePolicy, webhook.sideEffects, webhook.reinvocationPolicy) == ("Fail", "None", "IfNeeded")
        assert webhook.matchConditions[0].expression == "object.spec.schedulerName == 'kai-scheduler'"
        assert webhook.namespaceSelector is not None
        assert [each.key for each in webhook.namespaceSelector.matchExpressions] == [
            "kubernetes.io/metadata.name",
            "kai.scheduler/queue",
        ]
        assert webhook.namespaceSelector.matchExpressions[0].values == ("kube-system", NAMESPACE)
        assert webhook.objectSelector is not None
        assert webhook.objectSelector.matchLabels == {"team": "a"}
        names = {each.metadata.name for each in (await site.client.list(ValidatingWebhookConfiguration)).items}
        assert names == {"validating-kai-admission", "kai-queue-validation-v2", "kai-podgroup-validation-v2alpha2"}


def test_pods_are_checked_only_where_something_may_be_refused() -> None:
    """Without parts of GPUs nothing is, unless devices are blocked."""
    for blocked in (False, True):
        options = Options(pods=PodRules(block_nvidia_visible_devices=blocked), port=0)
        (webhook, _) = configurations(options, Reach("ns", "admission", ""), b"pem")[1].webhooks
        names = [each.name for each in webhook.matchConditions]
        assert ("asks-for-parts-of-gpus" in names) is not blocked
        assert names[0] == "scheduler-name-match"
        assert names[-1] == "pod-changes"
        assert may_be_refused({"annotations": {"team": "a"}}, options.pods) is blocked
        assert may_be_refused({"annotations": {"gpu-memory": "1"}}, options.pods)


async def changed(replica: Replica, trusted: str, before: bytes) -> bool:
    return await replica.certificate(trusted) != before


async def eventually(look: Any) -> None:
    async with asyncio.timeout(120):
        while True:
            if await look():
                return
            await asyncio.sleep(0.01)


async def test_a_replica_is_ready_when_it_answers_and_needs_no_lease(site: Site) -> None:
    client = Client(site.server.transport())
    clock = SteppedClock()
    env = Environment(
        client, Informers(client), clock, EventRecorder(client, clock, "t"), CollectorRegistry(), NAMESPACE
    )
    service = admission_service(env, Options(pods=SHARING, port=0))
    ready = env.readiness["admission"]
    assert not ready()
    task = asyncio.create_task(run_services(env, [service], leader_election=True))

    async def serves() -> bool:
        assert not task.done()
        return ready()

    await eventually(serves)
    assert (await site.client.list(Lease, NAMESPACE)).items == []
    task.cancel()
    await asyncio.wait([task])
    assert not ready()
