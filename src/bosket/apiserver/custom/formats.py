"""The formats of strings that Kubernetes checks; others are documentation. Used by `check`."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from email.utils import parseaddr
from urllib.parse import urlsplit

from bosket.api.time import parse_duration, parse_time


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _is_uri(text: str) -> bool:
    """An absolute URI, or an absolute path."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return not re.search(r"[\x00-\x20\x7f]", text) and (bool(parts.scheme) or text.startswith("/"))


def _is_email(text: str) -> bool:
    address = parseaddr(text)[1]
    name, at, domain = address.rpartition("@")
    return bool(name and at and domain) and "\n" not in text


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def _is_date(text: str) -> bool:
    return len(text) == 10 and _parses(date.fromisoformat)(text)


_LONG_UNITS = (
    r"ns|nano(?:second)?s?|us|µs|μs|micro(?:second)?s?|ms|milli(?:second)?s?|s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hrs?|hours?"
    r"|d|days?|w|wks?|weeks?"
)
_is_long_duration = _matches(rf"(?:\s*\d+\s*(?:{_LONG_UNITS}))+")


def _is_duration(text: str) -> bool:
    """As Go writes durations, or as people do: `2 days`."""
    return _parses(parse_duration)(text) or _is_long_duration(text)


def _parse_cidr(text: str) -> None:
    address, slash, bits = text.partition("/")
    if not slash or not (bits.isascii() and bits.isdigit()):
        raise ValueError(text)
    if int(bits) > ipaddress.ip_address(address).max_prefixlen:
        raise ValueError(text)


def _checksum10(digits: str) -> bool:
    return sum((10 - place) * (10 if sign == "X" else int(sign)) for place, sign in enumerate(digits)) % 11 == 0


def _checksum13(digits: str) -> bool:
    return sum((3 if place % 2 else 1) * int(sign) for place, sign in enumerate(digits)) % 10 == 0


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    return re.fullmatch(r"[0-9]{9}[0-9X]", digits) is not None and _checksum10(digits)


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    return re.fullmatch(r"[0-9]{13}", digits) is not None and _checksum13(digits)


def _is_credit_card(text: str) -> bool:
    """A number of one of the known issuers, with a right check digit."""
    digits = re.sub(r"[^0-9]+", "", text)
    issuers = (
        r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9]{2})[0-9]{12}|3[47][0-9]{13}"
        r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
    )
    if re.fullmatch(issuers, digits) is None:
        return False
    doubled = (int(sign) * (2 if place % 2 else 1) for place, sign in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


_HEX = "[0-9a-fA-F]"
_UUID = f"{_HEX}{{8}}-?{_HEX}{{4}}-?"
_CHANNEL = r"(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
_HOST_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"

#: By name, without dashes: `date-time` and `datetime` are the same.
FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(f"{_HEX}{{24}}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": lambda text: (
        len(text) <= 255 and _matches(rf"{_HOST_LABEL}|(?:{_HOST_LABEL}\.)+[a-zA-Z]{{2,63}}")(text)
    ),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(_parse_cidr),
    "mac": _matches(
        f"{_HEX}{{2}}(?P<sign>[:-])(?:{_HEX}{{2}}(?P=sign)){{4}}(?:(?:{_HEX}{{2}}(?P=sign)){{2}})?{_HEX}{{2}}"
        f"|(?:{_HEX}{{4}}\\.){{2,3}}{_HEX}{{4}}"
    ),
    "uuid": _matches(f"{_UUID}{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid3": _matches(f"{_UUID}3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _matches(f"{_UUID}4{_HEX}{{3}}-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "uuid5": _matches(f"{_UUID}5{_HEX}{{3}}-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches(f"#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _matches(rf"rgb\(\s*{_CHANNEL}\s*,\s*{_CHANNEL}\s*,\s*{_CHANNEL}\s*\)"),
    "byte": _is_base64,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _parses(parse_time),
    "k8sshortname": _matches(_LABEL),
    "k8slongname": lambda text: (
        len(text) <= 253 and _matches(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")(text)
    ),
}


def format_check(name: str) -> Callable[[str], bool] | None:
    """The check of each string format that Kubernetes enforces."""
    return FORMATS.get(name.replace("-", ""))
