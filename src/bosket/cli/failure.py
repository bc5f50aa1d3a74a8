"""The error message of a failed command, and its exit code: one sentence, and what to do about it.

Exit codes: 1 failed, 2 what was asked makes no sense, or names a file that isn't there.
"""

from __future__ import annotations

from typing import NamedTuple

from bosket.cli.output import CommandError, UsageError


class Failure(NamedTuple):
    """A failed command."""

    text: str
    exit_code: int = 1


def failure_of(error: Exception) -> Failure:
    """What `error` comes to for the person who ran the command."""
    from bosket.kube.errors import KubeError

    if isinstance(error, CommandError):
        return Failure(str(error), UsageError.exit_code if _is_of_missing_file(error) else error.exit_code)
    if isinstance(error, KubeError):
        return _of_cluster(error)
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, RecursionError | MemoryError):
        return Failure("what was asked for is too large, or nested too deeply (--debug shows where)")
    if type(error).__module__.partition(".")[0] == "bosket":
        # All of Bosket's own errors are sentences for people.
        return Failure(str(error), UsageError.exit_code if _is_of_missing_file(error) else 1)
    return Failure(
        f"{type(error).__name__}: {error} (an error inside Bosket: run the command again with --debug, and report what "
        f"it prints, with the output of bosket version --json)"
    )


def _of_cluster(error: Exception) -> Failure:
    from bosket.kube.errors import ApiError, Forbidden, MissingKubeconfig, NotFound, TransportError, Unauthorized

    if isinstance(error, MissingKubeconfig):
        return Failure(f"{error} (--kubeconfig names one; bosket up starts a cluster and writes one)", 2)
    if isinstance(error, TransportError):
        return Failure(
            f"{' '.join(filter(None, ('the API server', error.server)))} doesn't answer: {error.why}. Does the cluster "
            f"run, and is it the one you mean? (--kubeconfig and --context choose another)"
        )
    if isinstance(error, Unauthorized):
        return Failure(
            "the API server doesn't accept the credentials of your kubeconfig: they have expired, or are another "
            "cluster's; log in again, or choose another --context"
        )
    if isinstance(error, Forbidden):
        return Failure(f"your rights don't suffice: {error.message}")
    if isinstance(error, NotFound) and not error.details.name:
        return Failure(
            f"the cluster doesn't know what was asked for: {error.message}. Bosket's kinds are installed by "
            f"bosket crds --install"
        )
    return Failure(error.message or str(error) if isinstance(error, ApiError) else str(error))


def _is_of_missing_file(error: BaseException | None) -> bool:
    """Whether a file that was named isn't there."""
    while error is not None and not isinstance(error, FileNotFoundError):
        error = error.__cause__
    return error is not None


def _of_system(error: OSError) -> Failure:
    from bosket.kube.errors import failure_in_words

    name = f"{error.filename}: " if error.filename else ""
    if isinstance(error, FileNotFoundError):
        return Failure(f"{name}there is no such file", 2)
    if isinstance(error, IsADirectoryError):
        return Failure(f"{name}is a directory; a file is needed", 2)
    if isinstance(error, PermissionError):
        return Failure(f"{name}you may not read or write it")
    return Failure(f"{name}{failure_in_words(error)}")
