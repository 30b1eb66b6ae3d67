"""The protobuf contract, and the code that `make generate` makes of it; `petstore.wire` converts messages."""
