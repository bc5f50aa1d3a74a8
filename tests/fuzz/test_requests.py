"""A short campaign of requests that know the structure of what they break; a long one is a benchmark."""

from __future__ import annotations

from tests.fuzz.fuzzed import budget_seconds, chance
from tests.fuzz.request_campaign import Campaign

REQUESTS = 1_500


async def test_a_campaign_of_requests_ends_without_a_mistake_of_the_server() -> None:
    seed = chance().randrange(2**32)
    seconds = budget_seconds(0)
    results = await Campaign(seed).run(10**9 if seconds else REQUESTS, seconds or 60)
    print(results)
    assert not results.failures, "\n".join(f"{each.what}\n  {each.request}" for each in results.failures.values())
    assert {200, 201, 400, 404, 409, 422} <= results.by_status.keys()
    assert len(results.kinds) > 50
    assert len(results.stored) > 15
    assert sum(count for status, count in results.by_status.items() if status < 300) > results.requests / 8
