"""Number types of the API that JSON Schema alone does not tell apart."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from apis.meta.schema import SchemaMark, schema_format

__all__ = ["Int32", "Int64", "IntOrString"]


def _int_or_string(schema: dict[str, object]) -> None:
    schema.pop("anyOf", None)
    schema["x-kubernetes-int-or-string"] = True


Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1), schema_format("int32")]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1), schema_format("int64")]
# A count or a name or a percentage, as in `targetPort: http` and `maxSurge: 25%`.
IntOrString = Annotated[int | str, SchemaMark(_int_or_string)]
