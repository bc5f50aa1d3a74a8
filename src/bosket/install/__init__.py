"""Installation: service accounts, roles, and all objects of an installation.

Pure: renders objects and text, and talks to nobody. Below the services, so that the operator and the command line may
import it.

account     the service accounts, one for each service
right       what they may do: `rights.txt`, which is made from what the code calls (`python -m tests.install`)
role        roles and bindings made of that
values      the chart's values: defaults (`values.yaml`), merging, schema
expression  what values say, evaluated here or written for Helm; template: manifests with such gaps
*_part      the manifests: the operator, its Config, Grove's services, and what a cluster gets beside them
chart       all of it, as a chart and as manifests
"""
