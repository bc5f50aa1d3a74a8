"""Pods that stand alone, and those that another pod owns, as Spark's executors."""

from __future__ import annotations

from bosket.api import keys
from bosket.services.podgrouper.groupers.default import base_group
from bosket.services.podgrouper.owner import GroupingError
from bosket.services.podgrouper.workload import Grouping, Workload


def pod(workload: Workload) -> Grouping:
    """One group per pod at the top; the pods of a Spark application form one group, named by its selector."""
    labels = workload.top.labels
    if keys.SPARK_APP_NAME_LABEL not in labels or keys.SPARK_APP_SELECTOR_LABEL not in labels:
        return Grouping(base_group(workload))
    application = labels[keys.SPARK_APP_SELECTOR_LABEL]
    if not application:
        raise GroupingError(
            f"{workload.top}: label {keys.SPARK_APP_SELECTOR_LABEL} is empty; "
            "the group of a Spark application is named by it"
        )
    return Grouping(base_group(workload, name=application))
