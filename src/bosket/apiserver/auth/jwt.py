"""JSON web tokens with ES256: encoded, signed and verified."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_COORDINATE_BYTES: Final = 32
_MAX_TOKEN_BYTES: Final = 16 * 1024
ALGORITHM: Final = "ES256"


class BadToken(ValueError):
    """A token that isn't good; the text says why."""


class SigningKey:
    """The key that signs a server's tokens. Made when it is first needed: most servers give out none."""

    def __init__(self, kept: Callable[[Callable[[], bytes]], bytes] | None = None) -> None:
        """`kept` returns what it was given by a former server, or takes what it is offered; without it, the key and
        all tokens end with this server.
        """
        self._kept = kept
        self._loaded: EllipticCurvePrivateKey | None = None

    def sign(self, claims: dict[str, Any]) -> str:
        """A token that says `claims`."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        header = {"alg": ALGORITHM, "kid": self.public_jwk()["kid"]}
        signed = f"{_encode(msgspec.json.encode(header))}.{_encode(msgspec.json.encode(claims))}"
        r, s = utils.decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        raw = r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")
        return f"{signed}.{_encode(raw)}"

    def verify(self, token: str) -> dict[str, Any]:
        """What a token says, if this key signed it; raises `BadToken`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        if len(token) > _MAX_TOKEN_BYTES or token.count(".") != 2:
            raise BadToken("it is no JSON web token")
        head, body, signature = token.split(".")
        raw = _decode(signature)
        if _object(head).get("alg") != ALGORITHM or len(raw) != 2 * _COORDINATE_BYTES:
            raise BadToken("it is not signed with the server's key")
        r, s = int.from_bytes(raw[:_COORDINATE_BYTES], "big"), int.from_bytes(raw[_COORDINATE_BYTES:], "big")
        der = utils.encode_dss_signature(r, s)
        try:
            self._key.public_key().verify(der, f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise BadToken("it is not signed with the server's key") from None
        return _object(body)

    def public_jwk(self) -> dict[str, str]:
        """The public key as others may fetch it, to check tokens themselves."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        public = self._key.public_key()
        numbers = public.public_numbers()
        der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return {
            "use": "sig",
            "kty": "EC",
            "kid": _encode(hashlib.sha256(der).digest()),
            "crv": "P-256",
            "alg": ALGORITHM,
            "x": _encode(numbers.x.to_bytes(_COORDINATE_BYTES, "big")),
            "y": _encode(numbers.y.to_bytes(_COORDINATE_BYTES, "big")),
        }

    @property
    def _key(self) -> EllipticCurvePrivateKey:
        if self._loaded is None:
            from cryptography.hazmat.primitives.asymmetric import ec
            from cryptography.hazmat.primitives.serialization import load_pem_private_key

            pem = _new_key() if self._kept is None else self._kept(_new_key)
            loaded = load_pem_private_key(pem, None)
            assert isinstance(loaded, ec.EllipticCurvePrivateKey), "the signing key is of another type"
            self._loaded = loaded
        return self._loaded


def _new_key() -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadToken("it is no JSON web token") from None


def _object(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(_decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadToken("it is no JSON web token") from None
    if not isinstance(found, dict):
        raise BadToken("it is no JSON web token")
    return found
