from __future__ import annotations

from typing import Any

import pytest
from pydantic import create_model

from manager.api import ApiModel, Column, CrdOptions, Resource, crd
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
    """Leave the object unchanged, because both versions have the same fields."""


def conversion(hub: type[Resource], spoke: type[Resource]) -> Conversion:
    made = Conversion(hub)
    made.converters["to_hub", spoke] = made.converters["from_hub", spoke] = convert
    return made


def definition(*kinds: type[Resource]) -> Any:
    (only,) = custom_resource_definitions(kinds)
    return only["spec"]


def version(kind: type[Resource]) -> Any:
    (only,) = definition(kind)["versions"]
    return only


def test_crd_contains_all_names_and_printer_columns_of_its_kind():
    (widgets,) = custom_resource_definitions([Widget])
    spec = widgets["spec"]
    assert widgets["metadata"] == {"name": "widgets.test.example.com"}
    assert (spec["group"], spec["scope"]) == ("test.example.com", "Namespaced")
    assert spec["names"] == {
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


def test_crd_has_no_status_subresource_or_age_column_when_options_disable_them():
    @crd(status=False, age=False, columns=(Column("Size", "integer", ".spec.size", format="int32"),))
    class Plain(Resource, group="test.example.com", version="v1", plural="plains", namespaced=False):
        spec: Spec

    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "format": "int32"}
    assert definition(Plain)["scope"] == "Cluster"
    assert "subresources" not in version(Plain)
    assert version(Plain)["additionalPrinterColumns"] == [column]


def test_versions_of_a_kind_share_one_crd_but_inherit_no_options_from_each_other():
    class Newer(OldGadget, group="test.example.com", version="v2", kind="Gadget", plural="gadgets"):
        pass

    versions = definition(OldGadget, Gadget)["versions"]
    assert [(each["name"], each["served"], each["storage"]) for each in versions] == [
        ("v1beta1", False, False),
        ("v1", True, True),
    ]
    assert versions[0]["deprecated"] is True
    assert versions[0]["deprecationWarning"] == "use v1"
    assert [each["storage"] for each in definition(OldGadget, Newer)["versions"]] == [False, True]


def gadget(version: str, *, storage: bool = True, **names: Any) -> Any:
    """Return a model of the kind Gadget in this API version."""
    given = {"group": "test.example.com", "kind": "Gadget", "plural": "gadgets", "version": version, **names}
    made = create_model("Gadget", __base__=Resource, __cls_kwargs__=given, spec=(Spec, ...))
    return crd(storage=storage)(made)


@pytest.mark.parametrize(
    ("kinds", "complaint"),
    [
        ([Gadget, gadget("v2")], "Gadget: of the versions v1, v2, exactly one must have storage=True"),
        ([OldGadget], "exactly one must have storage=True"),
        ([Gadget, gadget("v2", storage=False, namespaced=False)], "same plural and the same scope"),
        ([Gadget, type("Gadget", (Gadget,), {})], "Gadget: a version is defined twice: v1, by "),
        ([gadget("v1", group="")], "core group"),
    ],
    ids=["two stored", "none stored", "scope", "twice", "core group"],
)
def test_custom_resource_definitions_refuse_invalid_sets_of_versions_and_the_core_group(
    kinds: Any, complaint: str
):
    with pytest.raises(ModelError, match=complaint):
        custom_resource_definitions(kinds)


def test_custom_resource_definitions_returns_one_crd_when_a_kind_is_passed_twice():
    assert custom_resource_definitions([Gadget, Gadget]) == custom_resource_definitions([Gadget])


def test_crd_of_a_converted_kind_names_the_service_or_url_of_its_webhook():
    converted = [conversion(Gadget, OldGadget)]
    made, widget = custom_resource_definitions([OldGadget, Gadget, Widget], converted)
    service = {"namespace": "system", "name": "webhook-service", "path": "/convert"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    assert made["spec"]["conversion"] == {"strategy": "Webhook", "webhook": webhook}
    assert "conversion" not in widget["spec"]
    (elsewhere,) = custom_resource_definitions([OldGadget, Gadget], converted, by_url("https://my.host:9443"))
    client_config = elsewhere["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client_config == {"url": "https://my.host:9443/convert"}


def test_custom_resource_definitions_refuse_conversion_functions_that_do_not_match_the_versions():
    newer, newest = gadget("v2", storage=False), gadget("v3")
    for kinds, converted, complaint in (
        ([Gadget, OldGadget], conversion(OldGadget, Gadget), "v1beta1 is the hub .* must have storage=True"),
        ([Gadget, OldGadget, newer], conversion(Gadget, OldGadget), "no conversion between v1 and v2"),
        ([Gadget, OldGadget], conversion(Gadget, newer), "no conversion between v1 and v1beta1"),
        ([Gadget], conversion(Gadget, OldGadget), "v1beta1 can be converted, but is not among the versions"),
        ([OldGadget, newest], conversion(Gadget, OldGadget), "v1 is the hub .* is not among the versions"),
        ([Widget], conversion(Gadget, OldGadget), "v1 is the hub .* is not among the versions"),
    ):
        with pytest.raises(ModelError, match=f"^Gadget: .*{complaint}"):
            custom_resource_definitions(kinds, [converted])


@pytest.mark.parametrize(
    ("options", "there"),
    [(CrdOptions(), None), (CrdOptions(status=False), None), (CrdOptions(status=True), {"status": {}})],
)
def test_crd_without_a_status_field_has_the_status_subresource_only_when_requested(
    options: CrdOptions, there: Any
):
    class Stateless(Resource, group="test.example.com", version="v1", plural="stateless"):
        spec: Spec

    assert version(options(Stateless)).get("subresources") == there


def test_crd_has_the_names_annotations_labels_and_selectable_fields_of_its_options():
    annotations, labels = {"cert-manager.io/inject-ca-from": "system/ca"}, {"team": "blue"}

    @crd(
        singular="gadjet",
        list_kind="Gadgetry",
        annotations=annotations,
        labels=labels,
        selectable_fields=(".spec.size",),
    )
    class Named(Resource, group="test.example.com", version="v1", kind="Gadget", plural="gadgets"):
        spec: Spec

    [made] = custom_resource_definitions([Named])
    name = "gadgets.test.example.com"
    assert made["metadata"] == {"name": name, "annotations": annotations, "labels": labels}
    assert (made["spec"]["names"]["listKind"], made["spec"]["names"]["singular"]) == ("Gadgetry", "gadjet")
    assert made["spec"]["versions"][0]["selectableFields"] == [{"jsonPath": ".spec.size"}]


@pytest.mark.parametrize("option", [{"labels": {"a": "b"}}, {"short_names": ("gg",)}, {"singular": "gadjet"}])
def test_crd_wide_option_is_refused_on_a_version_other_than_the_storage_version(option: Any):
    old = crd(storage=False, **option)(gadget("v1beta1"))
    [name] = option
    with pytest.raises(ModelError, match=f"^Gadget: {name} of v1beta1 has no effect: v1 is stored"):
        custom_resource_definitions([old, Gadget])
