"""TLS on the server side. A context may be given another certificate while it serves; new connections get it."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from bosket.runtime.certificates import KeyPair


def server_context(key_pair: KeyPair) -> ssl.SSLContext:
    """What a listener needs in order to show this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_key_pair(context, key_pair)
    return context


def load_key_pair(context: ssl.SSLContext, key_pair: KeyPair) -> None:
    """From now on show this certificate; connections that are open keep theirs."""
    with tempfile.TemporaryDirectory() as folder:  # the ssl module reads keys from files only
        certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        certificate.write_bytes(key_pair.cert_pem)
        key.touch(mode=0o600)
        key.write_bytes(key_pair.key_pem)
        context.load_cert_chain(certificate, key)
