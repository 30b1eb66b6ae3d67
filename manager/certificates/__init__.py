"""Certificates of the webhook server that look after themselves.

`decide` is the heart: a pure function from what is stored, what is seen and the time to the next step.
`keeper` looks and takes the step; a store (a `secret` or a `folder`) keeps what is made; and `targets` are
whatever has a CA bundle. `kept` puts them together.
"""
