"""The published gRPC contract, which must not change."""

from __future__ import annotations

from petstore.proto import petstore_pb2 as pb

# The published fields with numbers and FieldDescriptor types; `*` marks repeated fields.
PUBLISHED = {
    "DateRange": "start=1:11 end=2:11",
    "Pet": "id=1:9 name=2:9 type=3:14 birthday=4:11",
    "AddPetsReq": "pets=1:11*",
    "AddPetsResp": "ids=1:9*",
    "UpdatePetsReq": "pets=1:11*",
    "UpdatePetsResp": "",
    "DeletePetsReq": "ids=1:9*",
    "DeletePetsResp": "",
    "SearchPetsReq": "names=1:9* types=2:14* birthdate_range=3:11",
    "Sampler": "type=1:14 float_value=2:1",
    "ChangeSamplerReq": "sampler=1:11",
    "ChangeSamplerResp": "",
}
EXTENSIONS = {"Pet": "idempotency_key=5:9", "SearchPetsReq": "idempotency_keys=4:9*"}
ENUMS = {
    "PetType": "PTUnknown=0 PTCanine=1 PTFeline=2 PTBird=3 PTReptile=4",
    "SamplerType": "STUnknown=0 STNever=1 STAlways=2 STFloat=3",
}
ONE_ANSWER = ("AddPets", "UpdatePets", "DeletePets", "ChangeSampler")
CALLS = {**dict.fromkeys(ONE_ANSWER, False), "SearchPets": True}


def test_proto_contract_is_the_published_contract_plus_the_declared_extensions():
    messages = {
        name: " ".join(
            f"{field.name}={field.number}:{field.type}{'*' if field.is_repeated else ''}"
            for field in message.fields
        )
        for name, message in pb.DESCRIPTOR.message_types_by_name.items()
    }
    wanted = {name: f"{fields} {EXTENSIONS.get(name, '')}".strip() for name, fields in PUBLISHED.items()}
    assert messages == wanted
    enums = {
        name: " ".join(f"{value.name}={value.number}" for value in enum.values)
        for name, enum in pb.DESCRIPTOR.enum_types_by_name.items()
    }
    assert enums == ENUMS
    service = pb.DESCRIPTOR.services_by_name["PetStore"]
    assert service.full_name == "petstore.PetStore"
    assert {method.name: method.server_streaming for method in service.methods} == CALLS
    assert not any(method.client_streaming for method in service.methods)
    for method in service.methods:
        assert method.input_type.full_name == f"petstore.{method.name}Req"
