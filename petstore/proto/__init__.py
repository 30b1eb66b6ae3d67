"""The wire contract, and what `make generate` makes of it; `petstore.wire` translates."""
