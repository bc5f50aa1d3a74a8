"""`bosket doctor`: what is wrong with a cluster; also the base of `bosket migrate`.

Everything is decided on a `Bundle`, which `collect` reads once from a cluster and `files` from dumps and snapshots. The
checks are pure functions; nothing here ever writes to a cluster.
"""

from bosket.tools.doctor.bundle import Bundle
from bosket.tools.doctor.diagnose import Diagnosis, diagnose
from bosket.tools.doctor.finding import Finding, Severity

__all__ = ["Bundle", "Diagnosis", "Finding", "Severity", "diagnose"]
