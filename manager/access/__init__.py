"""Who asks, and whether they may: the API server's own answers, by TokenReview and SubjectAccessReview."""
