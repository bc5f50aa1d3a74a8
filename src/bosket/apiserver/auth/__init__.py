"""Who is asking: client certificates, bearer tokens, and those who may speak for others.

authenticator    finds the user behind a request
service_account  tokens of service accounts: signed, for an audience and a time, bound to objects
jwt              how such tokens are written, signed and checked
token_request    how clients ask for them
bootstrap_token  tokens that are Secrets, for those who join a cluster
impersonation    acting as somebody else, which roles must allow
"""

from bosket.apiserver.auth.authenticator import ANONYMOUS, PUBLIC_PATHS, Authenticator
from bosket.apiserver.auth.service_account import TokenIssuer

__all__ = ["ANONYMOUS", "PUBLIC_PATHS", "Authenticator", "TokenIssuer"]
