"""Installing Bosket: who its services are, what they may do, and every object that an installation consists of.

Pure: renders objects and text, and talks to nobody. Below the services, so that the operator and the command line may
import it.

account     the service accounts, one for each service
right       what they may do: `rights.txt`, which is made from what the code calls (`python -m tests.install`)
role        roles and bindings made of that
"""
