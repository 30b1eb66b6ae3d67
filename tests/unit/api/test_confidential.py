from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, Field, RootModel, Secret, SecretStr
from typing_extensions import TypeAliasType, TypedDict

from apis.example.v1.wordpress import Wordpress
from manager.api import ApiModel, Resource
from manager.api.confidential import masked

HIDDEN = "HUNTER2"


class Key(ApiModel):
    name: str = ""
    the_value: Annotated[str | None, Field(repr=False)] = None
    parts: list[str] = Field(default_factory=list, repr=False)


class Word(RootModel[SecretStr]): ...


class Keys(RootModel[list[Key]]): ...


NamedKey = TypeAliasType("NamedKey", Key)


@dataclass
class Box:
    name: str = ""
    word: SecretStr | None = None
    code: str = field(default="", repr=False)


class Drawer(TypedDict, total=False):
    name: str
    word: SecretStr


class VaultSpec(ApiModel):
    key: Key | None = None
    keys: list[Key] = Field(default_factory=list)
    by_name: dict[str, Key] | None = None
    token: SecretStr | None = None
    tokens: dict[str, SecretStr] = Field(default_factory=dict)
    named: Annotated[str, Field(alias="called", repr=False)] = ""
    read_as: SecretStr | None = Field(None, validation_alias=AliasChoices("readAs", "read"))
    number: Secret[int] | None = None
    word: Word | None = None
    more: Keys | None = None
    by_type: NamedKey | None = None
    pair: tuple[str, Key] | None = None
    box: Box | None = None
    drawer: Drawer | None = None


class Vault(Resource, group="vaults.test", version="v1", plural="vaults"):
    spec: VaultSpec = Field(default_factory=VaultSpec)


class OlderVault(Resource, group="vaults.test", version="v1alpha1", kind="Vault", plural="vaults"):
    password: str = Field(default="", repr=False)


def vault(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "vaults.test/v1", "kind": "Vault", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({"key": {"name": "a", "theValue": HIDDEN}}, {"key": {"name": "a", "theValue": "***"}}),
        ({"key": {"theValue": None}}, {"key": {"theValue": None}}),
        ({"key": {"parts": [HIDDEN]}}, {"key": {"parts": "***"}}),
        ({"keys": [{"name": "a"}, {"theValue": HIDDEN}]}, {"keys": [{"name": "a"}, {"theValue": "***"}]}),
        ({"byName": {"a": {"theValue": HIDDEN}}}, {"byName": {"a": {"theValue": "***"}}}),
        ({"token": HIDDEN}, {"token": "***"}),
        ({"tokens": {"a": HIDDEN}}, {"tokens": {"a": "***"}}),
        ({"called": HIDDEN}, {"called": "***"}),
        ({"called": {"a": [HIDDEN]}}, {"called": {"a": "***"}}),
        ({"read": HIDDEN}, {"read": "***"}),
        ({"number": HIDDEN}, {"number": "***"}),
        ({"word": HIDDEN}, {"word": "***"}),
        ({"more": [{"name": "a", "theValue": HIDDEN}]}, {"more": [{"name": "a", "theValue": "***"}]}),
        ({"byType": {"theValue": HIDDEN}}, {"byType": {"theValue": "***"}}),
        ({"pair": ["a", {"theValue": HIDDEN}, 1]}, {"pair": ["a", {"theValue": "***"}, 1]}),
        ({"box": {"name": "a", "word": HIDDEN}}, {"box": {"name": "a", "word": "***"}}),
        ({"box": {"code": HIDDEN}}, {"box": {"code": "***"}}),
        ({"drawer": {"name": "a", "word": HIDDEN}}, {"drawer": {"name": "a", "word": "***"}}),
        ({"unknown": 1, "key": "of another shape", "keys": {}}, None),
    ],
)
def test_masked_object_hides_every_field_declared_as_secret_type_or_with_repr_false(
    spec: dict[str, Any], shown: dict[str, Any] | None
):
    assert masked(vault(**spec)) == vault(**(spec if shown is None else shown))


def test_masked_object_marks_a_changed_value_without_showing_it():
    before, after = vault(keys=[{"theValue": "a"}], token="t"), vault(keys=[{"theValue": "b"}], token="t")
    assert masked(before, after, "before") == vault(keys=[{"theValue": "*** (before)"}], token="***")
    assert masked(after, before, "after") == vault(keys=[{"theValue": "*** (after)"}], token="***")
    assert masked(after, vault(), "after") == masked(after)


@pytest.mark.parametrize("data", [HIDDEN, [HIDDEN], {"a": HIDDEN}, {"a": {"b": HIDDEN}}])
@pytest.mark.parametrize("field", ["data", "stringData"])
def test_masked_object_hides_data_and_string_data_of_a_secret(field: str, data: Any):
    shown = masked({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", field: data})
    assert HIDDEN not in repr(shown)
    assert shown["type"] == "Opaque"
    assert field in shown


def test_masked_object_hides_the_values_of_a_secret_when_its_model_is_not_loaded():
    program = (
        "from manager.api.confidential import masked\n"
        f"print(masked({{'apiVersion': 'v1', 'kind': 'Secret', 'data': {{'a': '{HIDDEN}'}}}})['data'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "{'a': '***'}\n"


def test_masked_object_hides_confidential_fields_in_every_version_of_the_api_group():
    assert masked({"apiVersion": "vaults.test/v9", "kind": "Vault", "password": HIDDEN})["password"] == "***"
    other = {"apiVersion": "others.test/v1", "kind": "Vault", "password": "shown"}
    assert masked(other) == other


def test_masked_object_has_no_last_applied_configuration_annotation_of_kubectl():
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": HIDDEN, "kept": "yes"}
    shown = masked({"kind": "Any", "metadata": {"name": "a", "annotations": annotations}})
    assert shown["metadata"] == {"name": "a", "annotations": {"kept": "yes"}}
    assert len(annotations) == 2


def test_masked_object_hides_the_password_in_the_spec_of_a_wordpress():
    site = Wordpress.model_validate({"metadata": {"name": "blog"}, "spec": {"sqlrootpassword": HIDDEN}})
    assert HIDDEN not in repr(masked(site.to_wire()))
