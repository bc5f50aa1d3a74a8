"""ValidatingAdmissionPolicies: rules about writes that come as objects, with their bindings and parameters.

policy.py    a policy and its bindings, ready to be asked
params.py    the objects that parameterise a policy
evaluate.py  one policy's word on one attempt
dispatch.py  which policies are asked, and what follows
"""
