"""The wire contract, and the code that `make generate` makes from it; `petstore.wire` converts messages."""
