"""Authentication: client certificates, bearer tokens, impersonation.

authenticator    finds the user of a request
identity         well-known users and groups
service_account  tokens of service accounts: signed, with audience and expiry, bound to objects
jwt              encoding, signing and verification of those tokens
bootstrap_token  tokens that are Secrets, for kubelets that join a cluster
impersonation    `Impersonate-User` and its companions, which roles must allow
"""

from bosket.apiserver.auth.authenticator import ANONYMOUS, PUBLIC_PATHS, Authenticator
from bosket.apiserver.auth.service_account import TokenIssuer

__all__ = ["ANONYMOUS", "PUBLIC_PATHS", "Authenticator", "TokenIssuer"]
