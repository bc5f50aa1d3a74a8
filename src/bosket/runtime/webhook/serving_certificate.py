"""The certificate that all replicas show, the authority behind it, and when either is due to be replaced. Pure, but for
the keys that are made.

An authority is replaced long before it ends, and the former one stays trusted beside it. The certificate follows only
when API servers have had time to read the new CA bundle; so every connection finds a certificate that it trusts.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from bosket.runtime.certificates import BACKDATE, Authority, KeyPair, make_authority

#: As long before its end something new takes its place.
_LEAF_MARGIN: Final = timedelta(days=120)
#: Longer than any certificate that it signs lasts.
_AUTHORITY_MARGIN: Final = timedelta(days=500)
#: How long API servers are given to learn of a new authority.
_SETTLED: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Names:
    """What the server is called by those who connect to it."""

    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Serving:
    """What a replica shows, and what API servers are to trust."""

    key_pair: KeyPair
    authority: Authority
    #: The authority, and former ones that are still good; PEM.
    trusted_pem: bytes

    @property
    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.key_pair.cert_pem).not_valid_after_utc

    @property
    def expires_at(self) -> float:
        """In seconds since 1970."""
        return self.expires.timestamp()


def from_secret(data: Mapping[str, str]) -> Serving | None:
    """What a Secret holds; None if that is not all, or not readable."""
    try:
        parts = {key: base64.b64decode(data[key], validate=True) for key in ("tls.crt", "tls.key", "ca.crt", "ca.key")}
        authorities = x509.load_pem_x509_certificates(parts["ca.crt"])
        serving = Serving(
            KeyPair(parts["tls.crt"], parts["tls.key"]),
            Authority(_pem(authorities[0]), parts["ca.key"]),
            parts["ca.crt"],
        )
        matching = _matches(serving.key_pair.cert_pem, parts["tls.key"]) and _matches(parts["ca.crt"], parts["ca.key"])
    except (KeyError, IndexError, ValueError, TypeError, binascii.Error):
        return None
    return serving if matching else None


def to_secret(serving: Serving) -> dict[str, str]:
    """As a Secret holds it; `tls.crt` and `tls.key` are where KAI has them."""
    parts = {
        "tls.crt": serving.key_pair.cert_pem,
        "tls.key": serving.key_pair.key_pem,
        "ca.crt": serving.trusted_pem,
        "ca.key": serving.authority.key_pem,
    }
    return {key: base64.b64encode(part).decode() for key, part in parts.items()}


def renewed(serving: Serving | None, names: Names, now: float) -> Serving | None:
    """What is to take its place by now; None while it is good."""
    time = datetime.fromtimestamp(now, UTC)
    if serving is None:
        authority = make_authority("bosket admission")
        return Serving(_issue(authority, names), authority, authority.cert_pem)
    authorities = x509.load_pem_x509_certificates(serving.trusted_pem)
    good = [each for each in authorities if each.not_valid_after_utc > time]
    authority = serving.authority
    if authorities[0].not_valid_after_utc - time < _AUTHORITY_MARGIN:
        authority = make_authority("bosket admission")
        good.insert(0, x509.load_pem_x509_certificate(authority.cert_pem))
    key_pair = serving.key_pair
    if _is_due(key_pair, good, names, time):
        key_pair = _issue(authority, names)
    if authority is serving.authority and key_pair is serving.key_pair and good == authorities:
        return None
    return Serving(key_pair, authority, b"".join(map(_pem, good)))


def _is_due(key_pair: KeyPair, trusted: list[x509.Certificate], names: Names, time: datetime) -> bool:
    leaf = x509.load_pem_x509_certificate(key_pair.cert_pem)
    if leaf.not_valid_after_utc - time < _LEAF_MARGIN or not _covers(leaf, names):
        return True
    if _issued_by(leaf, trusted[0]):
        return False
    settled = time - (trusted[0].not_valid_before_utc + BACKDATE) >= _SETTLED
    return settled or not any(_issued_by(leaf, each) for each in trusted)


def _issue(authority: Authority, names: Names) -> KeyPair:
    common_name = (*names.dns, *names.ips)[0][:64]  # more is not allowed; nobody reads it anyway
    return authority.issue(common_name, server=True, dns=names.dns, ips=names.ips)


def _covers(leaf: x509.Certificate, names: Names) -> bool:
    try:
        known = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    addresses = set(known.get_values_for_type(x509.IPAddress))
    return set(names.dns) <= set(known.get_values_for_type(x509.DNSName)) and all(
        ipaddress.ip_address(each) in addresses for each in names.ips
    )


def _issued_by(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _matches(cert_pem: bytes, key_pem: bytes) -> bool:
    """Whether the key is that of the (first) certificate."""
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    key = load_pem_private_key(key_pem, password=None).public_key()
    return x509.load_pem_x509_certificate(cert_pem).public_key().public_bytes(*form) == key.public_bytes(*form)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


@dataclass(frozen=True, slots=True, repr=False)
class ProvidedCertificate:
    """What was found."""

    key_pair: KeyPair
    expires_at: float
    trusted_pem: bytes = b""


class CertificateDirectory:
    """Reads `tls.crt` and `tls.key`, each time anew: a Secret that changes is mounted anew."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def current(self) -> ProvidedCertificate:
        """What is there; raises `OSError` where nothing is, `ValueError` where that is no certificate."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> ProvidedCertificate:
        key_pair = KeyPair((self._directory / "tls.crt").read_bytes(), (self._directory / "tls.key").read_bytes())
        certificate = x509.load_pem_x509_certificate(key_pair.cert_pem)
        return ProvidedCertificate(key_pair, certificate.not_valid_after_utc.timestamp())
