"""Certificates of the webhook server that look after themselves."""
