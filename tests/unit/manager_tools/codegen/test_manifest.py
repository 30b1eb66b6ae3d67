from __future__ import annotations

from typing import Any

import pytest

from manager.api import ApiModel, Column, CrdOptions, Resource, Scale, crd
from manager.webhook import JsonObject
from manager.webhook.configurations import by_url
from manager.webhook.registration import Conversion
from manager_tools.codegen import ModelError, custom_resource_definitions
from tests.support.kinds import Widget


class Spec(ApiModel):
    size: int


class Status(ApiModel):
    size: int


class Gadget(Resource, group="test.example.com", version="v1", plural="gadgets"):
    spec: Spec
    status: Status | None = None


@crd(storage=False, served=False, deprecated="use v1")
class OldGadget(Resource, group="test.example.com", version="v1beta1", kind="Gadget", plural="gadgets"):
    spec: Spec
    status: Status | None = None


async def convert(gadget: JsonObject) -> None:
    """Leave the object unchanged: the versions are equal."""


def conversion(hub: type[Resource], spoke: type[Resource]) -> Conversion:
    made = Conversion(hub)
    made.converters["to_hub", spoke] = convert
    made.converters["from_hub", spoke] = convert
    return made


def definition(*kinds: type[Resource]) -> dict[str, Any]:
    (only,) = custom_resource_definitions(kinds)
    spec: dict[str, Any] = only["spec"]
    return spec


def version(kind: type[Resource]) -> dict[str, Any]:
    (only,) = definition(kind)["versions"]
    found: dict[str, Any] = only
    return found


def test_crd_contains_all_names_and_columns_of_its_kind():
    (widgets,) = custom_resource_definitions([Widget])
    assert widgets["metadata"] == {"name": "widgets.test.example.com"}
    assert widgets["spec"]["group"] == "test.example.com"
    assert widgets["spec"]["scope"] == "Namespaced"
    assert widgets["spec"]["names"] == {
        "kind": "Widget",
        "listKind": "WidgetList",
        "plural": "widgets",
        "singular": "widget",
        "shortNames": ["wd"],
        "categories": ["things"],
    }
    assert version(Widget)["additionalPrinterColumns"] == [
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "description": "How hard it tries"},
        {"name": "Happy", "type": "boolean", "jsonPath": ".status.happy", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def test_crd_without_status_subresource_or_age_column_can_be_generated():
    @crd(status=False, age=False, columns=(Column("Size", "integer", ".spec.size", format="int32"),))
    class Plain(Resource, group="test.example.com", version="v1", plural="plains", namespaced=False):
        spec: Spec

    assert definition(Plain)["scope"] == "Cluster"
    assert "subresources" not in version(Plain)
    assert version(Plain)["additionalPrinterColumns"] == [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "format": "int32"}
    ]


def test_versions_of_a_kind_share_one_crd():
    versions = definition(OldGadget, Gadget)["versions"]
    assert [(each["name"], each["served"], each["storage"]) for each in versions] == [
        ("v1beta1", False, False),
        ("v1", True, True),
    ]
    assert versions[0]["deprecated"] is True
    assert versions[0]["deprecationWarning"] == "use v1"


def test_custom_resource_definitions_require_exactly_one_storage_version():
    @crd()
    class Another(Resource, group="test.example.com", version="v2", kind="Gadget", plural="gadgets"):
        spec: Spec
        status: Status | None = None

    with pytest.raises(
        ModelError, match="Gadget: of the versions v1, v2, exactly one must have storage=True"
    ):
        custom_resource_definitions([Gadget, Another])
    with pytest.raises(ModelError, match="exactly one must have storage=True"):
        custom_resource_definitions([OldGadget])


def test_crd_options_of_a_version_are_not_inherited_by_a_subclass():
    class Newer(OldGadget, group="test.example.com", version="v2", kind="Gadget", plural="gadgets"):
        pass

    assert [each["storage"] for each in definition(OldGadget, Newer)["versions"]] == [False, True]


def test_incompatible_versions_of_a_kind_are_refused():
    @crd(storage=False)
    class Elsewhere(
        Resource, group="test.example.com", version="v2", kind="Gadget", plural="gadgets", namespaced=False
    ):
        spec: Spec
        status: Status | None = None

    with pytest.raises(ModelError, match="same plural and the same scope"):
        custom_resource_definitions([Gadget, Elsewhere])
    assert custom_resource_definitions([Gadget, Gadget]) == custom_resource_definitions([Gadget])
    elsewhere = type("Gadget", (Gadget,), {})
    with pytest.raises(ModelError, match="Gadget: a version is there twice: v1, by "):
        custom_resource_definitions([Gadget, elsewhere])


def test_crd_of_a_converted_kind_names_the_conversion_webhook():
    converted = [conversion(Gadget, OldGadget)]
    gadget, widget = custom_resource_definitions([OldGadget, Gadget, Widget], converted)
    assert gadget["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {
                "service": {"namespace": "system", "name": "webhook-service", "path": "/convert"}
            },
            "conversionReviewVersions": ["v1"],
        },
    }
    assert "conversion" not in widget["spec"]
    (elsewhere,) = custom_resource_definitions([OldGadget, Gadget], converted, by_url("https://my.host:9443"))
    client_config = elsewhere["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client_config == {"url": "https://my.host:9443/convert"}


def test_conversion_functions_that_do_not_match_the_versions_are_refused():
    @crd(storage=False)
    class Newer(Resource, group="test.example.com", version="v2", kind="Gadget", plural="gadgets"):
        spec: Spec
        status: Status | None = None

    for kinds, converted, complaint in (
        ([Gadget, OldGadget], conversion(OldGadget, Gadget), "v1beta1 is the hub .* must have storage=True"),
        ([Gadget, OldGadget, Newer], conversion(Gadget, OldGadget), "no conversion between v1 and v2"),
        ([Gadget, OldGadget], conversion(Gadget, Newer), "no conversion between v1 and v1beta1"),
        ([Gadget], conversion(Gadget, OldGadget), "v1beta1 can be converted, but is not among the versions"),
        ([Widget], conversion(Gadget, OldGadget), "v1 is the hub .* must have storage=True"),
    ):
        with pytest.raises(ModelError, match=f"^Gadget: .*{complaint}"):
            custom_resource_definitions(kinds, [converted])


def test_custom_resource_definitions_refuse_kind_of_the_core_group():
    class Core(Resource, version="v1", plural="cores"):
        spec: Spec

    with pytest.raises(ModelError, match="core group"):
        custom_resource_definitions([Core])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": (Column("Colour", "string", ".spec.colour"),)}, r"Bad.spec.colour: .*column Colour"),
        ({"scale": Scale(".spec.size", ".status.replicas")}, r"Bad.status.replicas: .*scale"),
        (
            {"scale": Scale(".spec.size", ".status.size", "spec.selector")},
            r"Bad: the scale subresource names the path 'spec.selector', and a path begins with a dot",
        ),
    ],
)
def test_custom_resource_definitions_refuse_a_path_to_a_missing_field(options: dict[str, Any], message: str):
    @crd(**options)
    class Bad(Resource, group="test.example.com", version="v1", plural="bads"):
        spec: Spec
        status: Status | None = None

    with pytest.raises(ModelError, match=message):
        custom_resource_definitions([Bad])


@pytest.mark.parametrize(
    ("options", "there"),
    [(CrdOptions(), None), (CrdOptions(status=False), None), (CrdOptions(status=True), {"status": {}})],
)
def test_kind_without_a_status_field_has_the_status_subresource_only_on_request(
    options: CrdOptions, there: Any
):
    class Stateless(Resource, group="test.example.com", version="v1", plural="stateless"):
        spec: Spec

    assert version(options(Stateless)).get("subresources") == there


def test_crd_has_the_names_annotations_labels_and_selectable_fields_of_its_kind():
    @crd(
        singular="gadjet",
        list_kind="Gadgetry",
        annotations={"cert-manager.io/inject-ca-from": "system/ca"},
        labels={"team": "blue"},
        selectable_fields=(".spec.size",),
    )
    class Named(Resource, group="test.example.com", version="v1", kind="Gadget", plural="gadgets"):
        spec: Spec

    [made] = custom_resource_definitions([Named])
    assert made["metadata"] == {
        "name": "gadgets.test.example.com",
        "annotations": {"cert-manager.io/inject-ca-from": "system/ca"},
        "labels": {"team": "blue"},
    }
    assert made["spec"]["names"] == {
        "kind": "Gadget",
        "listKind": "Gadgetry",
        "plural": "gadgets",
        "singular": "gadjet",
    }
    assert made["spec"]["versions"][0]["selectableFields"] == [{"jsonPath": ".spec.size"}]


@pytest.mark.parametrize("option", [{"labels": {"a": "b"}}, {"short_names": ("gg",)}, {"singular": "gadjet"}])
def test_crd_wide_option_is_refused_in_a_version_that_is_not_the_storage_version(option: dict[str, Any]):
    @crd(storage=False, **option)
    class Old(Resource, group="test.example.com", version="v1beta1", kind="Gadget", plural="gadgets"):
        spec: Spec

    [name] = option
    with pytest.raises(ModelError, match=f"^Gadget: {name} of v1beta1 has no effect: v1 is stored"):
        custom_resource_definitions([Old, Gadget])
