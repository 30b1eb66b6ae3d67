"""Certificates of the webhook server that look after themselves.

`decide` is the heart: a pure function from what is stored, what is seen and the time to the next step.
`keeper` looks and takes the step; a store (a `secret` or a `folder`) keeps what is made; and a `target` is
whatever has a CA bundle: a `configuration`, or the `definition` of a kind. `kept` puts them together.
"""

from __future__ import annotations

from manager.webhook.certificates.kept import Certificates, kept_in_folder, kept_in_secret
from manager.webhook.certificates.lifetimes import Lifetimes

__all__ = ["Certificates", "Lifetimes", "kept_in_folder", "kept_in_secret"]
