"""Invalid webhook methods are refused when their class is defined, and by type checkers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from manager import Operator, webhook
from manager.api import Resource, Unstructured
from manager.webhook import Admission, AdmissionRequest, JsonObject, RegistrationError
from manager_kinds.core_v1 import Pod
from tests.support.type_checks import run_mypy
from tests.unit.webhook.reviews import OldThing, Thing

Warnings = Iterable[str] | None


def operator(**members: Any) -> type[Operator[Any]]:
    return type("Judging", (Operator,), {"kind": Thing, "name": "judging", **members})


async def no_request(self: Any, new: Thing) -> None: ...
async def of_one(self: Any, new: Thing, request: AdmissionRequest) -> Warnings: ...
async def of_two(self: Any, old: Thing | None, new: Thing, request: AdmissionRequest) -> Warnings: ...
async def of_both(self: Any, old: Thing, new: Thing, request: AdmissionRequest) -> Warnings: ...
async def of_three(self: Any, old: Thing, new: Thing, request: AdmissionRequest, more: int) -> None: ...
async def by_name(self: Any, new: Thing, *, request: AdmissionRequest) -> None: ...
async def of_json(self: Any, thing: JsonObject, request: AdmissionRequest) -> None: ...
async def of_json_alone(self: Any, thing: JsonObject) -> None: ...
async def of_model_alone(self: Any, thing: Thing) -> None: ...
async def of_json_that_returns(self: Any, thing: JsonObject, request: AdmissionRequest) -> JsonObject: ...
async def of_old_version(self: Any, new: OldThing, request: AdmissionRequest) -> None: ...
async def of_a_pod(self: Any, pod: Pod, request: AdmissionRequest) -> None: ...
async def of_options(self: Any, options: Unstructured, request: AdmissionRequest) -> None: ...
async def swapped(self: Any, request: AdmissionRequest, new: Thing) -> None: ...
async def renamed(self: Any, new: Any, old: Any, request: AdmissionRequest) -> None: ...
async def that_says_no(self: Any, new: Thing, request: AdmissionRequest) -> bool: ...
async def untyped(self, new, request): ...  # type: ignore[no-untyped-def] # noqa: ANN001
async def of_any(self: Any, *arguments: Any) -> Any: ...
async def of_parents(self: Any, new: Resource | None, request: object, more: int = 0) -> list[str]: ...
async def of_unknown(self: Any, new: NotImported, request: AdmissionRequest) -> None: ...  # type: ignore[name-defined] # noqa: F821
async def without_self(new: Thing, request: AdmissionRequest) -> None: ...
def plain(self: Any, new: Thing, request: AdmissionRequest) -> None: ...


create, update, delete = webhook.validate_create, webhook.validate_update, webhook.validate_delete
to_hub, from_hub = webhook.to_hub(OldThing), webhook.from_hub(OldThing)
VERSIONS = {"versions": (OldThing,)}


def decorated(function: Any, *decorators: Any) -> Any:
    """Return a copy of a function with these decorators applied."""
    parts = ("code", "globals", "name", "defaults", "closure")
    copied = type(function)(*(getattr(function, f"__{each}__") for each in parts))
    copied.__annotations__, copied.__kwdefaults__ = function.__annotations__, function.__kwdefaults__
    for decorator in decorators:
        copied = decorator(copied)
    return copied


CREATE, UPDATE, DELETE = "@webhook.validate_create", "@webhook.validate_update", "@webhook.validate_delete"


DEFAULT = "@webhook.default"
ONE, TWO = "with (new, request)", "with (old, new, request)"
JSON = "with plain JSON (JsonObject)"
TAKES, TYPED = "after self, and it takes", "which is annotated as"
SPLIT = "write two methods"
NONE = "with None for old when the object is new: write `old: Thing | None`"


@pytest.mark.parametrize(
    ("function", "decorators", "why"),
    [
        (no_request, [create], f"{CREATE} calls it {ONE} {TAKES} new"),
        (of_two, [create], f"{CREATE} calls it {ONE} {TAKES} old, new, request"),
        (by_name, [create], f"{CREATE} calls it {ONE} {TAKES} new, request"),
        (of_one, [create, update], f"{CREATE} and {UPDATE} call it {TWO} {TAKES} new, request"),
        (of_both, [update, create], f"{UPDATE} and {CREATE} call it {NONE}"),
        (of_three, [update], f"{UPDATE} calls it {TWO} {TAKES} old, new, request, more"),
        (of_both, [update, delete], f"{UPDATE} calls it {TWO}, and {DELETE} with (old, request): {SPLIT}"),
        (
            of_one,
            [create, webhook.default],
            f"{CREATE} calls it {ONE}, and {DEFAULT} with (object, request): {SPLIT}",
        ),
        (of_one, [webhook.default], f"{DEFAULT} calls it {JSON} for new, {TYPED} Thing"),
        (of_json, [delete], f"{DELETE} calls it with a Thing for thing, {TYPED} dict"),
        (of_old_version, [create], f"{CREATE} calls it with a Thing for new, {TYPED} OldThing"),
        (swapped, [create], f"{CREATE} calls it with a Thing for request, {TYPED} AdmissionRequest"),
        (that_says_no, [create], "it returns warnings, as texts, or None; to refuse, it raises `Refused`"),
        (of_json_that_returns, [webhook.default], "it changes its argument in place, and returns None"),
        (of_json, [to_hub], f"@webhook.to_hub(OldThing) calls it with (object) {TAKES} thing, request"),
        (of_model_alone, [from_hub], f"@webhook.from_hub(OldThing) calls it {JSON} for thing, {TYPED} Thing"),
        (renamed, [update], f"{UPDATE} calls it {TWO} in this order, and it takes new, old, request"),
        (plain, [create], "a webhook method has to be an `async def`, without yield"),
    ],
)
def test_webhook_method_with_an_unsuitable_signature_is_refused(
    function: Any, decorators: list[Any], why: str
):
    if "it takes" in why:
        why += f", at tests/unit/webhook/test_methods.py:{function.__code__.co_firstlineno}"
    with pytest.raises(RegistrationError, match=f"^{re.escape(f'Judging.judge: {why}')}$"):
        operator(judge=decorated(function, *decorators), **VERSIONS)


@pytest.mark.parametrize(
    ("function", "decorators"),
    [
        (of_one, [create]),
        (of_one, [delete, create]),
        (of_two, [create, update]),
        (of_two, [update, create]),
        (of_two, [update]),
        (of_both, [update]),
        (of_json, [webhook.default]),
        (of_json_alone, [to_hub]),
        (of_parents, [create]),
        (of_unknown, [create]),
        (without_self, [staticmethod, create]),
        (without_self, [create, staticmethod]),
        *(
            (function, [decorator])
            for function in (untyped, of_any)
            for decorator in (create, webhook.default)
        ),
    ],
)
def test_webhook_method_with_a_suitable_signature_is_accepted(function: Any, decorators: list[Any]):
    accepted: Any = operator(judge=decorated(function, *decorators), **VERSIONS)
    assert list(webhook.methods.marks(accepted.judge))


def test_webhook_method_that_accepts_another_kind_than_its_admission_is_refused():
    pods, shells = Admission(Pod), Admission(Pod, subresources=("exec",))
    kinds = {"pods": pods, "shells": shells}
    operator(**kinds, judge=decorated(of_a_pod, pods.validate_create))
    shells = kinds["shells"] = Admission(Pod, subresources=("exec",))
    operator(**kinds, judge=decorated(of_options, shells.validate_connect))
    other = kinds["pods"] = Admission(Pod)
    with pytest.raises(
        RegistrationError, match=r"Admission\(Pod\.v1\) calls it with a Pod for new, .* as Thing$"
    ):
        operator(**kinds, judge=decorated(of_one, other.validate_delete))
    lost = Admission(Pod)
    with pytest.raises(
        RegistrationError, match=r"^Judging\.judge: it is for Admission\(Pod\.v1\), which is no"
    ):
        operator(judge=decorated(of_a_pod, lost.validate_create))


@pytest.mark.parametrize(
    ("name", "function", "meant"),
    [
        ("validate_creat", of_one, "@webhook.validate_create"),
        ("validateUpdate", of_two, "@webhook.validate_update"),
        ("validate_deletion", of_one, "@webhook.validate_delete"),
        ("default", of_json_alone, "@webhook.default"),
        ("convert_to", of_json_alone, "@webhook.to_hub(...)"),
        ("from_hubs", of_json_alone, "@webhook.from_hub(...)"),
        ("validate_create", plain, "@webhook.validate_create"),
    ],
)
def test_undecorated_method_named_similar_to_a_webhook_is_refused(name: str, function: Any, meant: str):
    why = re.escape(f"Judging.{name}: it is never called; did you mean {meant}")
    with pytest.raises(RegistrationError, match=why):
        operator(**{name: function})


def test_undecorated_method_is_accepted_unless_name_and_parameters_resemble_a_webhook():
    operator(validate_name=of_one, validate=of_one, _default=of_json, default=lambda self, spec: spec)


def test_second_webhook_method_for_the_same_operation_is_refused():
    why = r"^Judging\.more: @webhook\.validate_create is on judge already; there can be one$"
    with pytest.raises(RegistrationError, match=why):
        operator(judge=decorated(of_one, create), more=decorated(of_one, create))
    with pytest.raises(RegistrationError, match="judge already"):
        operator(judge=decorated(of_json, webhook.default, webhook.default))


def test_override_of_a_webhook_method_requires_the_same_decorator():
    base = operator(judge=decorated(of_one, create))
    why = r"^More\.judge: it overrides a method, and needs the decorator @webhook\.validate_create too; "
    with pytest.raises(RegistrationError, match=why):
        type("More", (base,), {"judge": of_one})
    type("More", (base,), {"judge": decorated(of_one, create)})
    type("More", (base,), {"judge": None})


def test_conversion_decorator_is_refused_when_its_version_is_not_declared():
    with pytest.raises(
        RegistrationError, match=r"Thing\.v1alpha1\.test\.example\.com is not among the `versi"
    ):
        operator(convert=decorated(of_json_alone, to_hub))
    for decorator, arguments in product((webhook.to_hub, webhook.from_hub), ((of_json_alone,), ())):
        why = rf"^@webhook\.{decorator.__name__} takes the other version, as in @webhook"
        with pytest.raises(RegistrationError, match=why):
            decorator(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "decorator", [webhook.default, create, update, delete, Admission(Pod).validate_connect]
)
def test_webhook_decorator_with_empty_parentheses_is_refused(decorator: Any):
    role = decorator.__name__
    why = f"the decorator {role} takes no parentheses: write {role}, not {role}()"
    with pytest.raises(RegistrationError, match=f"^{re.escape(why)}$"):
        decorator()


PROGRAM = """
from __future__ import annotations

from collections.abc import Iterable

from apis.cache.v1.memcached import Memcached
from manager import Operator, webhook
from manager.api import Resource
from manager_kinds.core_v1 import Pod
from manager.webhook import AdmissionRequest, JsonObject


class Checked(Operator[Memcached]):
    pods = webhook.Admission(Pod)

    @webhook.default
    async def fill(self, obj: JsonObject, request: AdmissionRequest) -> None: ...

    @webhook.validate_create
    @webhook.validate_update
    async def check(self, old: Memcached | None, new: Memcached, _: AdmissionRequest) -> Iterable[str] | None:
        return None

    @pods.validate_update
    @pods.validate_create
    async def look(self, old: Pod | None, new: Pod, request: AdmissionRequest) -> None: ...

    @pods.validate_delete
    async def hold(self, pod: Resource, request: AdmissionRequest) -> None: ...

    @webhook.to_hub(Memcached)
    async def convert(self, obj: JsonObject) -> None: ...

    @webhook.validate_create  # wrong: it takes a request, too
    async def no_request(self, new: Memcached) -> None: ...

    @webhook.validate_create  # wrong: there is no old object
    @webhook.validate_update
    async def never_none(self, old: Memcached, new: Memcached, _: AdmissionRequest) -> None: ...

    @webhook.validate_create  # wrong: it gets a model
    async def no_model(self, obj: JsonObject, _: AdmissionRequest) -> None: ...

    @webhook.validate_delete  # wrong: it returns warnings
    async def verdict(self, old: Memcached, _: AdmissionRequest) -> bool:
        return True

    @webhook.validate_delete  # wrong: it has to be asynchronous
    def at_once(self, old: Memcached, _: AdmissionRequest) -> None: ...

    @webhook.default  # wrong: it changes its argument
    async def returns(self, obj: JsonObject, _: AdmissionRequest) -> int:
        return 1

    @webhook.to_hub(Memcached)  # wrong: it gets JSON
    async def no_json(self, old: Memcached) -> None: ...

    @pods.validate_connect  # wrong: there is one object
    async def two(self, pod: Pod, more: Pod, _: AdmissionRequest) -> None: ...

    @pods.validate_creat  # wrong: there is no such decorator
    async def misspelt(self, pod: Pod, _: AdmissionRequest) -> None: ...


async def call(checked: Checked, new: Memcached, request: AdmissionRequest) -> None:
    await checked.check(None, new, request)
"""


def test_mypy_reports_each_invalid_signature_and_accepts_correct_signatures(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    options = ["--strict", f"--cache-dir={tmp_path / 'cache'}", "--config-file="]
    found = {int(line) for line in re.findall(r":(\d+): error", run_mypy(*options, str(program)))}
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong" in line}
    assert found == wrong
