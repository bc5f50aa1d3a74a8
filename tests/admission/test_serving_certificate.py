"""The certificate is renewed before it ends, and nobody ever meets one that he doesn't trust yet."""

from __future__ import annotations

import time

import pytest
from cryptography import x509

from bosket.runtime.webhook.serving_certificate import Names, Serving, from_secret, renewed, to_secret

NAMES = Names(dns=("admission.kai-scheduler.svc",), ips=("127.0.0.1",))
DAY = 86400.0


def fresh() -> Serving:
    serving = renewed(None, NAMES, time.time())
    assert serving is not None
    return serving


def must_renew(serving: Serving, now: float, names: Names = NAMES) -> Serving:
    after = renewed(serving, names, now)
    assert after is not None
    return after


def authorities(serving: Serving) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(serving.trusted_pem)


def trusts(serving: Serving, leaf_pem: bytes) -> bool:
    leaf = x509.load_pem_x509_certificate(leaf_pem)
    return any(each.subject == leaf.issuer and _verifies(leaf, each) for each in authorities(serving))


def _verifies(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except Exception:
        return False
    return True


def test_a_secret_gives_back_what_was_put_into_it() -> None:
    serving = fresh()
    assert from_secret(to_secret(serving)) == serving
    assert renewed(serving, NAMES, time.time()) is None


@pytest.mark.parametrize("key", ["tls.crt", "tls.key", "ca.crt", "ca.key"])
@pytest.mark.parametrize("broken", [None, "", "not base64!", "bm9uc2Vuc2U="])
def test_a_secret_that_makes_no_sense_is_none(key: str, broken: str | None) -> None:
    data = to_secret(fresh())
    if broken is None:
        del data[key]
    else:
        data[key] = broken
    assert from_secret(data) is None


def test_a_key_of_another_certificate_is_none() -> None:
    one, other = to_secret(fresh()), to_secret(fresh())
    assert from_secret({**one, "tls.key": other["tls.key"]}) is None
    assert from_secret({**one, "ca.key": other["ca.key"]}) is None


def test_a_certificate_is_replaced_while_it_is_good_by_one_of_the_same_authority() -> None:
    serving = fresh()
    assert renewed(serving, NAMES, time.time() + 200 * DAY) is None
    after = must_renew(serving, time.time() + 300 * DAY)
    assert after.key_pair != serving.key_pair
    assert after.trusted_pem == serving.trusted_pem


def test_other_names_need_another_certificate_at_once() -> None:
    serving = fresh()
    after = must_renew(serving, time.time(), Names(dns=(*NAMES.dns, "elsewhere.example")))
    assert after.key_pair != serving.key_pair
    assert after.trusted_pem == serving.trusted_pem


def test_a_new_authority_is_trusted_before_its_certificate_is_shown() -> None:
    first = fresh()
    at = time.time() + 3300 * DAY
    # The certificate of those days: as the first one, but not yet due.
    second = must_renew(first, at)
    assert len(authorities(second)) == 2
    assert trusts(second, first.key_pair.cert_pem)
    assert trusts(second, second.key_pair.cert_pem)


def test_the_certificate_follows_a_new_authority_after_a_while() -> None:
    first, other = fresh(), fresh()
    # The other authority has just come; the certificate is still the first one's.
    both = Serving(first.key_pair, other.authority, other.trusted_pem + first.trusted_pem)
    assert renewed(both, NAMES, time.time()) is None
    after = must_renew(both, time.time() + 660)
    assert trusts(other, after.key_pair.cert_pem)
    assert after.trusted_pem == both.trusted_pem


def test_a_certificate_of_nobody_known_is_replaced_at_once() -> None:
    first, other = fresh(), fresh()
    after = must_renew(Serving(first.key_pair, other.authority, other.trusted_pem), time.time())
    assert trusts(other, after.key_pair.cert_pem)


def test_an_authority_that_has_ended_is_forgotten() -> None:
    first = fresh()
    after = must_renew(first, time.time() + 4000 * DAY)
    assert len(authorities(after)) == 1
    assert not trusts(after, first.key_pair.cert_pem)


def test_keys_are_not_shown_by_accident() -> None:
    assert "PRIVATE" not in repr(fresh())
