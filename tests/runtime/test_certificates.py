"""Certificates of our own authority satisfy a strict TLS peer, and only where they should."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bosket.runtime.certificates import Authority, KeyPair, make_authority


def server_context(directory: Path, authority: Authority, pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(context, directory, pair)
    context.load_verify_locations(cadata=authority.cert_pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def client_context(directory: Path, authority: Authority, pair: KeyPair) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.cert_pem.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    load(context, directory, pair)
    return context


def load(context: ssl.SSLContext, directory: Path, pair: KeyPair) -> None:
    cert, key = directory / f"{id(pair)}.crt", directory / f"{id(pair)}.key"
    cert.write_bytes(pair.cert_pem)
    key.write_bytes(pair.key_pem)
    context.load_cert_chain(cert, key)


async def converse(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str:
    """The common name that the server sees, after both have checked each other; `name` is what the client dials."""
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        subject = dict(part[0] for part in writer.get_extra_info("peercert")["subject"])
        seen.set_result(subject["commonName"])
        writer.write(b"hello\n")
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        assert await reader.readline() == b"hello\n"
        writer.close()
        return await seen


@pytest.mark.parametrize("name", ["127.0.0.1", "kubernetes.default.svc"])
async def test_server_and_client_recognise_each_other_under_strict_checks(tmp_path: Path, name: str) -> None:
    authority = make_authority("bosket")
    server = authority.issue("api", dns=("localhost", "kubernetes.default.svc"), ips=("127.0.0.1", "::1"), server=True)
    admin = authority.issue("admin", organizations=("system:masters",), client=True)
    contexts = server_context(tmp_path, authority, server), client_context(tmp_path, authority, admin)
    assert await converse(*contexts, name) == "admin"


async def test_a_client_refuses_a_name_that_the_certificate_does_not_carry(tmp_path: Path) -> None:
    authority = make_authority("bosket")
    server = authority.issue("api", ips=("127.0.0.1",), server=True)
    admin = authority.issue("admin", client=True)
    contexts = server_context(tmp_path, authority, server), client_context(tmp_path, authority, admin)
    with pytest.raises(ssl.SSLCertVerificationError):
        await converse(*contexts, "elsewhere.example")


async def test_a_server_refuses_to_be_spoken_to_as_a_client_and_with_a_foreign_certificate(tmp_path: Path) -> None:
    authority = make_authority("bosket")
    only_client = authority.issue("admin", ips=("127.0.0.1",), client=True)
    contexts = server_context(tmp_path, authority, only_client), client_context(tmp_path, authority, only_client)
    with pytest.raises(ssl.SSLCertVerificationError):
        await converse(*contexts, "127.0.0.1")

    stranger = make_authority("bosket")
    server = stranger.issue("api", ips=("127.0.0.1",), server=True)
    with pytest.raises(ssl.SSLCertVerificationError):
        await converse(
            server_context(tmp_path, stranger, server), client_context(tmp_path, authority, only_client), "127.0.0.1"
        )


def test_a_client_certificate_says_user_and_groups_where_kubernetes_looks_for_them() -> None:
    pair = make_authority("ca").issue("jane", organizations=("dev", "ops"), client=True)
    certificate = x509.load_pem_x509_certificate(pair.cert_pem)
    subject = certificate.subject
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["dev", "ops"]
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"


def test_validity_begins_in_the_past_and_ends_before_libraries_object() -> None:
    pair = make_authority("ca").issue("api", dns=("localhost",), server=True)
    certificate = x509.load_pem_x509_certificate(pair.cert_pem)
    assert certificate.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=5)
    assert timedelta(days=30) < certificate.not_valid_after_utc - datetime.now(UTC) < timedelta(days=825)


@pytest.mark.parametrize(("purpose", "complaint"), [({}, "client, a server"), ({"server": True}, "DNS name or an IP")])
def test_a_certificate_nobody_could_use_is_refused_by_name(purpose: dict[str, bool], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"'api'.*{complaint}"):
        make_authority("ca").issue("api", **purpose)  # type: ignore[arg-type]


def test_keys_do_not_show_in_a_representation() -> None:
    authority = make_authority("ca")
    shown = repr(authority.issue("a", client=True)) + repr(authority)
    assert "BEGIN" not in shown
