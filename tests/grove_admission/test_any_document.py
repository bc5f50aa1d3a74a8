"""Whatever is written, the rules answer: nothing makes them raise."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.admission import AdmissionRequest
from bosket.grove.admission.authorizer import authorize
from bosket.grove.admission.review_handlers import check_set, complete_set, review_binding
from tests.grove_admission.sets import CONFIGURATION, Cluster, changed, clique, group, pcs

TEXT = st.text(max_size=8)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
WHOLE = pcs(
    clique("a", 2, startsAfter=["b"], autoScalingConfig={"maxReplicas": 3}),
    clique("b", template={"topologyConstraint": {"topologyName": "t", "pack": {"required": "rack"}}}),
    groups=(group("g", "b", scaleConfig={"maxReplicas": 2}),),
    cliqueStartupType="CliqueStartupTypeExplicit",
    resourceClaimTemplates=[{"name": "t", "templateSpec": {"spec": {"devices": {}}}}],
    resourceSharing=[{"name": "t", "scope": "AllReplicas", "filter": {"childCliqueNames": ["a"]}}],
)
PLACES = (
    "metadata.name",
    "metadata.annotations",
    "spec",
    "spec.replicas",
    "spec.template",
    "spec.template.cliques",
    "spec.template.cliques.0",
    "spec.template.cliques.0.name",
    "spec.template.cliques.0.labels",
    "spec.template.cliques.0.spec.replicas",
    "spec.template.cliques.0.spec.startsAfter",
    "spec.template.cliques.0.spec.podSpec",
    "spec.template.cliques.0.spec.podSpec.containers",
    "spec.template.cliques.0.spec.podSpec.schedulerName",
    "spec.template.cliques.0.spec.autoScalingConfig",
    "spec.template.cliques.1.topologyConstraint",
    "spec.template.podCliqueScalingGroups",
    "spec.template.podCliqueScalingGroups.0.cliqueNames",
    "spec.template.terminationDelay",
    "spec.template.topologyConstraint",
    "spec.template.resourceSharing",
)


@settings(max_examples=200, deadline=None)
@given(place=st.sampled_from(PLACES), value=ANYTHING, operation=st.sampled_from(["CREATE", "UPDATE", "DELETE"]))
def test_a_set_with_anything_anywhere_is_answered(place: str, value: Any, operation: str) -> None:
    document = changed(WHOLE, place, value)
    for new, old in ((document, WHOLE), (WHOLE, document), (value, document)):
        request = AdmissionRequest(operation=operation, object=new, oldObject=old)
        complete_set(request)
        check_set(request, CONFIGURATION, Cluster())
        review_binding(request, CONFIGURATION)
        authorize(request, CONFIGURATION.authorizer, "operator", Cluster())
