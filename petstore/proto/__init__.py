"""The protobuf contract and its code, which `make generate` writes; `petstore.wire` converts messages."""
