"""ValidatingAdmissionPolicies, with their bindings and parameters.

policy    a policy and its bindings, compiled
params    the objects that parameterise a policy
evaluate  one policy on one request with one set of parameters
dispatch  which policies apply to a request; refusals and warnings
"""
