"""Options of the operator."""

from __future__ import annotations

from dataclasses import dataclass

from bosket import __version__


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the operator."""

    #: The image of every service where the Config doesn't name another: repository/name:tag.
    image: str = f"bosket:{__version__}"
    #: A Secret of the namespace with which images are pulled, beside those that the Config names.
    image_pull_secret: str = ""
    #: How long changes are gathered.
    gather_seconds: float = 0.2
    #: How often kinds that aren't served, and a Prometheus that doesn't answer, are looked for again.
    look_again_seconds: float = 30.0
