"""authentication.k8s.io/v1: who is asking."""

from __future__ import annotations

from bosket.api.object import KubeObject, Wire


class UserInfo(Wire):
    """A user as the API server knows it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class TokenReviewSpec(Wire):
    """The token to look at."""

    token: str = ""
    audiences: tuple[str, ...] = ()


class TokenReviewStatus(Wire):
    """Whose token it is."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(KubeObject):
    """Asks whose token this is."""

    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()


class BoundObjectReference(Wire):
    """The object with which a token loses its worth."""

    kind: str = ""
    apiVersion: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(Wire):
    """What token is wanted."""

    audiences: tuple[str, ...] | None = ()
    expirationSeconds: int | None = None
    boundObjectRef: BoundObjectReference | None = None
    attestations: dict[str, tuple[str, ...]] = {}


class TokenRequestStatus(Wire):
    """The token."""

    token: str = ""
    expirationTimestamp: str | None = None


class TokenRequest(KubeObject):
    """Asks for a token of a service account; posted to `serviceaccounts/token`."""

    spec: TokenRequestSpec = TokenRequestSpec()
    status: TokenRequestStatus = TokenRequestStatus()


class SelfSubjectReviewStatus(Wire):
    """Who the asker is."""

    userInfo: UserInfo = UserInfo()


class SelfSubjectReview(KubeObject):
    """Asks who the asker is."""

    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()
