"""Admission webhooks: who else is asked about a write, and how.

hook.py      a webhook of a configuration, ready to be asked
table.py     all of them, kept in step with the configurations
review.py    the question and its answer
caller.py    the way there and back (the one module that asks over the network)
address.py   where a webhook is: a URL, or a service
dispatch.py  who is asked when, and what follows from the answers
"""
