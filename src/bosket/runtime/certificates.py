"""A certificate authority of our own, for TLS between parts that we start ourselves.

The embedded server takes its serving certificate and its administrator's client certificate from here, the admission
webhook its serving certificate. Keys are EC P-256: quick to make and understood by every client. Nothing is written
to disk here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_VALIDITY: Final = timedelta(days=3650)
#: Below the limit that TLS libraries set for serving certificates (825 days).
_LEAF_VALIDITY: Final = timedelta(days=365)
#: Clocks of containers and hosts differ a little.
BACKDATE: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    cert_pem: bytes
    key_pem: bytes

    def __repr__(self) -> str:
        return "KeyPair(…)"  # a key must not reach a log by accident


@dataclass(frozen=True, slots=True, repr=False)
class Authority:
    """Signs certificates; clients that trust `cert_pem` trust them."""

    cert_pem: bytes
    key_pem: bytes

    def issue(
        self,
        common_name: str,
        *,
        organizations: Sequence[str] = (),
        dns: Sequence[str] = (),
        ips: Sequence[str] = (),
        client: bool = False,
        server: bool = False,
    ) -> KeyPair:
        """A certificate for a server (reached by `dns`, `ips`) or a client (user and groups in the name), or both."""
        if not (client or server):
            raise ValueError(f"certificate {common_name!r}: must be for a client, a server, or both")
        if server and not (dns or ips):
            raise ValueError(f"certificate {common_name!r}: a server needs a DNS name or an IP address")
        issuer = x509.load_pem_x509_certificate(self.cert_pem)
        issuer_key = serialization.load_pem_private_key(self.key_pem, password=None)
        assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
        builder = (
            _builder(common_name, organizations, key, issuer.subject, _LEAF_VALIDITY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        )
        if dns or ips:
            names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns]
            names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ips]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return KeyPair(_cert_pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key))


def make_authority(name: str) -> Authority:
    """A new self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _builder(name, (), key, subject, _AUTHORITY_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(_cert_pem(certificate), _key_pem(key))


def _builder(
    common_name: str,
    organizations: Sequence[str],
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    validity: timedelta,
) -> x509.CertificateBuilder:
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    # The machine's own clock, not an injected one: the peer's TLS library looks at nothing else.
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + validity)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _cert_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
