"""`kubectl bosket`: kubectl runs the program kubectl-bosket, and asks kubectl_complete-bosket what may come next."""

from __future__ import annotations

import sys

from bosket.cli.main import app, main


def plugin() -> int:
    """The command line; `main` sees by which name it was called."""
    return main()


def complete() -> int:
    """Candidates for kubectl's completion."""
    from bosket.cli.completion.candidates import print_candidates

    print_candidates(app, sys.argv[1:])
    return 0
