"""Invalid declarations of operators raise one-line errors that tell the remedy."""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

import pytest

from apis.example.v1.wordpress import Wordpress
from manager import Context, ControllerOptions, Operator, Owns, Reads, Watch, daemon, every, index_by, webhook
from manager.api import Resource, Status, Unstructured
from manager.operator import add_controller
from manager.webhook import RegistrationError
from manager.webhook.methods import registrations
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod
from manager_tools.testing import without_manager
from tests.support.kinds import Gadget, OldGadget


@pytest.mark.parametrize(
    "name",
    ["owns", "watches", "reads", "versions", "rights", "conditions", "former_managers", "former_finalizers"],
)
def test_operator_refuses_a_declaration_of_several_values_that_is_not_a_tuple(name: str):
    for value, shown in (([], "a list"), (Gadget, "Gadget")):
        with pytest.raises(TypeError, match=rf"^Bad.{name} takes a tuple of .*, and is {shown}$"):
            type("Bad", (Operator,), {"kind": Gadget, name: value})


@pytest.mark.parametrize("name", ["reconcile", "reconcile_key", "cleanup", "gone", "on_error"])
def test_operator_refuses_a_sync_method_that_the_runtime_awaits(name: str):
    with pytest.raises(TypeError, match=rf"^Bad.{name} has to be an `async def`$"):
        type("Bad", (Operator,), {"kind": Gadget, name: lambda *_: None})


async def something(*_: Any) -> None: ...


async def of_one(self: Any, obj: Any) -> None: ...
async def of_two(self: Any, obj: Any, ctx: Any) -> None: ...
async def of_nothing() -> None: ...
async def of_nothing_else(self: Any) -> None: ...
async def renamed(self: Any, ctx: Any, obj: Any) -> None: ...
async def of_three(self: Any, obj: Any, ctx: Any, more: Any) -> None: ...
async def by_name(self: Any, obj: Any, *, ctx: Any) -> None: ...
async def swapped(self: Any, ctx: Context, obj: Gadget) -> None: ...
async def of_another_kind(self: Any, obj: Deployment, ctx: Context) -> None: ...
async def of_a_pod(self: Any, obj: Pod) -> None: ...
async def of_a_key(self: Any, key: Gadget) -> None: ...
def waiting(self: Any, obj: Any) -> None: ...


def copied(method: Any) -> Any:
    """Return a copy of the method without the attributes that decorators set."""
    return FunctionType(method.__code__, method.__globals__, method.__name__)


PLACE_OF_THREE = f"tests/unit/operator/test_declaration.py:{of_three.__code__.co_firstlineno}"


CALLED = "is called with (self, obj, ctx)"
REASONS = 'reasons, as in `{PaymentRefused: "PaymentRefused"}`'


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("owns", ("Deployment",), "takes a tuple of kinds, or of `Owns(Kind, ...)`, and has 'Deployment'"),
        ("owns", (Resource,), "has Resource, which is no kind: a class with a version and a plural"),
        ("owns", (Owns("Pod"),), "has 'Pod', which is no kind: "),  # type: ignore[arg-type]
        ("watches", (Watch(Unstructured, label="a"),), "has Unstructured, which is no kind: "),
        ("reads", (Reads(Resource),), "has Resource, which is no kind: "),
        ("watches", (Pod,), "takes a tuple of `Watch(Kind, label=...)`, or with `enqueue=`, and has Pod"),
        ("reads", (Watch(Pod, label="a"),), "takes a tuple of kinds, or `Reads(Kind, ...)`, and has a Watch"),
        (
            "rights",
            ({"groups": ""},),
            "takes a tuple of rules, as in `rbac(groups=..., ...)`, and has a dict",
        ),
        (
            "conditions",
            ("not ready",),
            "takes a tuple of types of conditions, in CamelCase, and has 'not ready'",
        ),
        ("former_managers", ("",), "takes a tuple of names of field managers, and has ''"),
        ("versions", (Pod,), "has Pod.v1, which is not another version of Gadget.v1.test.example.com"),
        ("versions", (Gadget,), "has Gadget.v1.test.example.com, which is not another version of Gadget"),
        ("name", "Bad Name", "takes at most 63 of"),
        ("name", "", "takes at most 63 of"),
        ("on", "generation", "takes a predicate, such as `generation_changed`, and is"),
        ("on", of_one, "takes a predicate, such as `generation_changed`, and is a function"),
        ("selection", "app=web", 'takes `Selection.of(label_selector="app=web")`, and is'),
        ("indexes", {"a": "spec.a"}, "takes functions, as in"),
        ("errors", {"ValueError": "Reason"}, "takes reasons, as in"),
        ("options", {"max": 1}, "takes `ControllerOptions(...)`, and is a dict"),
        ("admission", {}, "takes `webhook.AdmissionOptions(...)`, and is a dict"),
        (
            "errors",
            {KeyError: "Missing", ValueError: "not a reason"},
            f"takes {REASONS}, and has 'not a reason'",
        ),
        ("reconcile", of_one, f"{CALLED}, and takes (self, obj)"),
        ("reconcile", of_three, f"{CALLED}, and takes (self, obj, ctx, more), at {PLACE_OF_THREE}"),
        ("reconcile", by_name, f"{CALLED}, and takes (self, obj, ctx)"),
        ("reconcile", swapped, f"{CALLED}: its ctx is annotated as Context, and gets a Gadget"),
        ("cleanup", of_another_kind, f"{CALLED}: its obj is annotated as Deployment, and gets a Gadget"),
        (
            "gone",
            of_a_key,
            "is called with (self, key): its key is annotated as Gadget, and gets the ObjectKey",
        ),
        ("on_error", of_one, "is called with (self, obj, error, ctx), and takes (self, obj)"),
        ("refresh", every(9)(swapped), f"{CALLED}: its ctx is annotated as Context, and gets a Gadget"),
        *(
            ("refresh", every(9)(copied(method)), "@every is for `async def refresh(self, obj, ctx)`, or for")
            for method in (by_name, of_nothing, of_three, waiting)
        ),
        ("refresh", every(9)(renamed), f"{CALLED} in this order, and takes (self, ctx, obj)"),
        ("reconcile", every(9)(of_two), "is called by the runtime: decorate another method, or return"),
        *(
            ("follow", daemon(copied(method)), "@daemon is for `async def follow(self, obj)`")
            for method in (of_nothing, of_nothing_else, of_two, of_three, waiting)
        ),
        ("follow", daemon(of_a_pod), "is called with (self, obj): its obj is annotated as Pod, and gets a"),
        ("setup", something, "is called without await, and cannot be an `async def`"),
        ("blocked", something, "is called without await, and cannot be an `async def`"),
    ],
)
def test_operator_attribute_with_an_invalid_value_or_signature_is_refused(name: str, value: Any, told: str):
    with pytest.raises(TypeError, match=f"^Bad.{name}:? {re.escape(told)}"):
        type("Bad", (Operator,), {"kind": Gadget, name: value})


@pytest.mark.parametrize(
    ("decorate", "told"),
    [
        (lambda: every(something), "@every needs more than 0 seconds, as in @every(30), not a function"),
        (lambda: every("5s"), "@every needs more than 0 seconds, as in @every(30), not '5s'"),
        (lambda: every(True), "@every needs more than 0 seconds, as in @every(30), not True"),
        (lambda: every(float("inf")), "@every needs more than 0 seconds, as in @every(30), not inf"),
        (lambda: every(0), "@every needs more than 0 seconds, as in @every(30), not 0"),
        (lambda: every(5, jitter=2), "@every needs a jitter from 0 to 1, not 2"),
        (lambda: every(5, jitter="much"), "@every needs a jitter from 0 to 1, not 'much'"),
        (lambda: every(5)(every(7)(something)), "@every is twice on one method"),
        (lambda: every(5)(property(something)), "@every is for a method, not for a property"),
        (lambda: daemon("always"), "@daemon is for a method, not for 'always'"),
        (
            lambda: webhook.default(property(something)),
            "@webhook.default is for a method, not for a property",
        ),
    ],
)
def test_method_decorator_refuses_an_invalid_argument_or_a_property(decorate: Any, told: str):
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(told)}$"):
        decorate()


def test_decorators_accept_static_and_class_methods_in_either_order():
    class Marked(Operator[Gadget]):
        @every(9)
        @staticmethod
        async def first(obj: Gadget, ctx: Context) -> None: ...

        @staticmethod
        @every(9)
        async def second(obj: Gadget, ctx: Context) -> None: ...

        @classmethod
        @every(9)
        async def third(cls) -> None: ...

        @daemon
        @classmethod
        async def fourth(cls, obj: Gadget) -> None: ...

    timers = [(each.name, each.for_each) for each in Marked.timers]
    assert timers == [("first", True), ("second", True), ("third", False)]
    assert [each.name for each in Marked.daemons] == ["fourth"]


def test_operator_is_refused_when_the_order_of_its_base_classes_hides_a_mixin_method():
    class Ready:
        async def reconcile(self, obj: Gadget, ctx: Context) -> None: ...

    class Right(Ready, Operator[Gadget]): ...

    assert Right.reconcile is Ready.reconcile
    told = (
        r"^Wrong\.reconcile comes from Operator and hides the one of Ready: name Ready first among the bases$"
    )
    with pytest.raises(TypeError, match=told):

        class Wrong(Operator[Gadget], Ready): ...


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (
            {"watches": (Watch(Pod, label="a", on=True),)},  # type: ignore[arg-type]
            "on of Watch(Pod) is called with (event), and is True",
        ),
        (
            {"watches": (Watch(Pod, label="a", on=lambda: True),)},  # type: ignore[arg-type,misc]
            "on of Watch(Pod) is called with (event), and is a function",
        ),
        (
            {"watches": (Watch(Pod, enqueue=lambda meta: []),)},  # type: ignore[misc,arg-type]
            "enqueue of Watch(Pod) is called with (meta, objects)",
        ),
        (
            {"owns": (Owns(Pod, indexes={"it": lambda obj: ()}),)},  # type: ignore[misc,arg-type,dict-item]
            "Owns(Pod).indexes['it'] is called with (record, meta)",
        ),
        ({"indexes": {"it": lambda obj: ()}}, "indexes['it'] is called with (record, meta)"),
    ],
)
def test_operator_is_refused_when_the_function_of_a_watch_or_index_is_unsuitable(
    members: dict[str, Any], told: str
):
    with pytest.raises(TypeError, match=rf"^Bad(: |\.){re.escape(told)}$"):
        type("Bad", (Operator,), {"kind": Gadget, **members})


def test_status_model_with_an_invalid_condition_type_is_refused():
    with pytest.raises(
        TypeError, match=r"^Told: 'not ready' is no type of a condition; write it in CamelCase$"
    ):
        type("Told", (Status,), {}, conditions={"not ready": "said"})  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("failure_policy", "Ignored"),
        ("match_policy", "exact"),
        ("reinvocation_policy", True),
        ("side_effects", None),
        ("default_on", "CREATE"),
        ("default_on", ("DELETE",)),
    ],
)
def test_webhook_option_that_the_api_server_would_refuse_is_refused(name: str, value: Any):
    with pytest.raises(RegistrationError, match=rf"^AdmissionOptions: {name} is .*, and takes '"):
        webhook.AdmissionOptions(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("own", [Pod], "owns"),
        ("watch", (), "watches"),
        ("read", Pod, "reads"),
        ("former_finalisers", ("a",), "former_finalizers"),
        ("skip_own_writes", True, "skips_own_writes"),
        ("option", ControllerOptions(), "options"),
        ("onws", Owns(Pod), "owns"),
        ("index", {}, "indexes"),
        ("reconsile", something, "reconcile"),
        ("Reconcile", lambda *_: None, "reconcile"),
        ("set_up", lambda *_: None, "setup"),
        # Similar names that are allowed.
        ("reconcile_one", something, None),
        ("owner", (), None),
        ("nows", "now", None),
        ("version", 0, None),
        ("own_pods", (), None),
        ("_own", (), None),
        ("watch_over", something, None),
    ],
)
def test_operator_refuses_a_misspelt_attribute_and_suggests_the_right_one(
    name: str, value: Any, meant: str | None
):
    members = {"kind": Gadget, name: value}
    if meant is None:
        type("Some", (Operator,), members)
        return
    with pytest.raises(TypeError, match=rf"^Some.{name}: it is never \w+; did you mean {meant}\?$"):
        type("Some", (Operator,), members)
    type("Some", (Operator,), {**members, meant: getattr(Operator, meant)})  # both may exist


@pytest.mark.parametrize(
    ("kind", "path", "said"),
    [
        (Wordpress, "spec.sqlRootPasswordSecretRef.name", None),
        (Wordpress, "status.conditions[*].type", None),
        (Wordpress, r"metadata.labels.example\.com/site", None),
        (Deployment, "spec.template", None),
        (Wordpress, "spec.storage_size", "has no field spec.storage_size; did you mean spec.storageSize?"),
        (Wordpress, "spec.imag", "has no field spec.imag; did you mean spec.image?"),
        (Wordpress, "sped.image", "has no field sped; did you mean spec?"),
        (Wordpress, "spec.image.tag", "has no field spec.image.tag: spec.image is no object"),
        (Wordpress, "status.conditions.type", r"has a list at status.conditions: write status.conditions[*]"),
        (Wordpress, "spec.image[*]", "has no list at spec.image"),
    ],
)
def test_index_of_a_missing_field_is_refused(kind: type[Resource], path: str, said: str | None):
    indexes = {"it": index_by(path)}
    for members, where in (
        ({"kind": kind, "indexes": indexes}, "Some.indexes"),
        ({"kind": Gadget, "owns": (Owns(kind, indexes=indexes),)}, f"Some: Owns({kind.__name__}).indexes"),
    ):
        if said is None:
            type("Some", (Operator,), members)
            continue
        expected = re.escape(f"{where}['it']: Wordpress {said}")
        with pytest.raises(TypeError, match=f"^{expected}$"):
            type("Some", (Operator,), members)


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({}, r"Bad has no kind: class Bad\(Operator\[Kind\]\)$"),
        ({"kind": Gadget}, "Bad has no reconcile, and no webhook"),
        (
            {"kind": Gadget, "former_finalizers": ("old",), "setup": lambda _: None},
            "Bad has no reconcile, so it removes no finalizer$",
        ),
    ],
)
def test_operator_without_kind_or_reconcile_is_refused(attributes: dict[str, Any], told: str):
    with pytest.raises(TypeError, match=f"^{told}"):
        add_controller(without_manager(type("Bad", (Operator,), attributes)))


@pytest.mark.parametrize(
    ("attributes", "what"),
    [
        ({"former_finalizers": ("old",)}, "former_finalizers"),
        ({"cleanup": of_two}, "cleanup"),
        ({"refresh": every(9)(copied(of_two))}, "a timer for each object"),
        ({"follow": daemon(copied(of_one))}, "a daemon"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_operator_with_only_reconcile_key_is_refused_when_a_declaration_requires_reconcile(
    attributes: dict[str, Any], what: str
):
    with pytest.raises(TypeError, match=f"^Bad has {what}, for which it needs `reconcile`"):
        type("Bad", (Operator,), {"kind": Gadget, "reconcile_key": of_one, **attributes})


def test_additional_versions_without_a_conversion_method_are_refused():
    class Lossy(Operator[Gadget]):
        """Operator whose second version would lose fields of the first one."""

        versions = (OldGadget,)

        async def reconcile(self, gadget: Gadget, ctx: Context) -> None: ...

    with pytest.raises(RegistrationError, match=r"^Lossy has versions, but no method that converts them: "):
        list(registrations(Lossy))


def test_webhook_declaration_refuses_a_selector_with_snake_case_keys():
    with pytest.raises(RegistrationError, match=r"objects has 'match_labels', and takes matchLabels and"):
        webhook.Admission(Pod, objects={"match_labels": {"a": "b"}})
