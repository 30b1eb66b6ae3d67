"""Who asks, and whether they may: the API server's own answers, by TokenReview and SubjectAccessReview."""

from __future__ import annotations

from manager.access.access import Access, ReviewFailed, Verdict
from manager.access.answers import TooManyStrangers
from manager.access.reviews import User

__all__ = ["Access", "ReviewFailed", "TooManyStrangers", "User", "Verdict"]
