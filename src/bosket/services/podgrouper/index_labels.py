"""Labels by which groupers look up pods; the service keeps an index of its informer for each."""

from __future__ import annotations

from typing import Final

#: On all pods of one of Kubeflow's training jobs: the job's name.
TRAINING_JOB_LABEL: Final = "training.kubeflow.org/job-name"
#: On all pods of a Knative service: the revision that they run.
KNATIVE_REVISION_LABEL: Final = "serving.knative.dev/revision"

#: All labels with an index.
POD_LABELS: Final = (TRAINING_JOB_LABEL, KNATIVE_REVISION_LABEL)
