"""Certificates of the webhook server, which are created and renewed automatically.

`rotation` contains the rules that derive the next step from stored and observed state, and the loop that
performs the steps. A `store` (a Secret or a folder) keeps the certificates, and `targets` are the objects
with a CA bundle. `factory` connects all of them.
"""
