"""The server itself: puts the parts together and answers requests, whichever transport carries them.

api_server    ApiServer: request in, response or watch out
in_process    a client transport that calls the server as a function
nonresource   paths that name no resource: health, version, metrics, OpenAPI
discovery     /api and /apis: the resources that are served
metrics       request counts and durations, under kube-apiserver's names
"""
