"""A certificate that somebody else keeps: files in a directory, as a Secret is mounted.

Whom API servers are to trust because of it is that one's business too (cert-manager writes it into the webhook
configurations), so nothing is said about it here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from bosket.runtime.certificates import KeyPair


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
