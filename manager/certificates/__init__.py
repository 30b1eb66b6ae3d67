"""Certificates of the webhook server that look after themselves.

`rotation` has the rules, which lead from stored and observed state to the next step, and the loop that takes
it. A `store` (a Secret or a folder) keeps the certificates, and `targets` are the objects with a CA bundle.
`factory` puts all together.
"""
