"""What the webhooks of the operators say, as a person with kubectl sees it."""

from __future__ import annotations

import secrets
import stat
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.memcacheds import MEMCACHEDS, memcached
from tests.support.namespaces import create_namespace
from tests.support.person import Person
from tests.support.pets import ALPHA, BETA, GROUP, alpha, beta, spec
from tests.support.webhook_manager import webhook_manager
from tests.support.wordpresses import PASSWORD, wordpress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import StartControlPlane
    from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.contract

DEPRECATED = f"{GROUP}/v1alpha1 Pet is deprecated"
FUTURE = 'spec.birthday: Invalid value: "2999-01-01": must not be in the future'
KEPT = "example.test/kept"
NAMELESS = ({}, {"name": ""}, {"name": "A" * 254}, {"name": "\u2003"}, {"name": "A\0nn"})
UNREACHABLE = ("", "ann", "Ann <ann@example.com>", "a..n@example.com", f"{'a' * 250}@b.cd")


@pytest.fixture(scope="module")
def asked(
    module_control_plane: StartControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """An API server that asks a manager, which runs none of the operators that have rules.

    In the namespace `old` are objects that came in when nobody was asked.
    """
    plane = module_control_plane(parts=BARE, crds=True)
    create_namespace(plane, "old")
    for each in (
        beta("of-the-future", birthday="2999-01-01", name=" Thor "),
        beta("going", birthday="1066-10-14"),
    ):
        each["metadata"]["finalizers"] = [KEPT]
        Person(plane, "old").can("create", given=each)
    with webhook_manager(plane, tmp_path_factory.mktemp("manager"), "--controllers=mysrv"):
        yield plane


@pytest.fixture
def person(asked: ControlPlane) -> Person:
    """With a namespace of their own."""
    name = f"test-{secrets.token_hex(4)}"
    create_namespace(asked, name)
    return Person(asked, name)


@pytest.fixture
def keeper(asked: ControlPlane) -> Person:
    """Whose the old objects are."""
    return Person(asked, "old")


# Pet.


def test_a_pet_is_stored_tidily(person: Person) -> None:
    assert person.can("create", given=beta("thor", name="  Thor the Great\t", species="DOG")) == []
    assert person.reads(BETA, "thor")["spec"] == beta("thor", name="Thor the Great")["spec"]
    (warning,) = person.can("create", given=alpha("tron", name="\u3000Tron ", species="Cat"))
    assert warning.startswith(DEPRECATED)
    assert person.reads(ALPHA, "tron")["spec"] == alpha("tron", name="Tron", species="cat")["spec"]
    assert person.reads(BETA, "tron")["spec"] == beta("tron", name="Tron", species="cat")["spec"]


def test_an_owner_is_somebody_whom_mail_may_reach(person: Person) -> None:
    for owner in ({"name": "Ann"}, {"name": "\N{DOG FACE}" * 253, "email": "ann.o'hara+pets@exämple.com"}):
        person.can("apply", given=beta("owned", owner=owner))
        assert person.reads(BETA, "owned")["spec"]["owner"] == owner


def test_what_is_applied_untidily_again_and_again_stays_the_same(person: Person) -> None:
    for _ in range(2):
        person.can("apply", given=beta("thor", name=" Thor ", species="DOG"))
    assert person.reads(BETA, "thor")["metadata"]["generation"] == 1
    for _ in range(2):
        person.can("apply", "--server-side", given=beta("tron", name=" Tron ", species="CAT"))
    assert person.reads(BETA, "tron")["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("pet", "said"),
    [
        (beta("x", name=5), "spec.name: Invalid value"),
        (beta("x", name=""), "spec.name: Invalid value"),
        (beta("x", name=" \t"), "spec.name: Invalid value"),
        (beta("x", name=" \u2003"), "must not be blank"),
        (beta("x", name="\u00a0\x1c\x1f\x85"), "must not be blank"),
        (beta("x", name="Tho\0r"), "must not contain NUL"),
        (beta("x", name="T" * 254), "spec.name"),
        (beta("x", species=["dog"]), "spec.species: Invalid value"),
        (beta("x", species="Dragon"), 'spec.species: Unsupported value: "dragon"'),
        (beta("x", birthday="2021-02-30"), "spec.birthday"),
        ({**beta("x"), "spec": ["Thor"]}, "spec"),
        *(
            ({**beta("x"), "spec": {}}, f"spec.{field}: Required")
            for field in ("name", "species", "birthday")
        ),
        *((beta("x", owner=owner), "spec.owner: Invalid value") for owner in ("Ann", [], 7)),
        *((beta("x", owner=owner), "spec.owner.name:") for owner in NAMELESS),
        *((beta("x", owner={"name": "Ann", "email": email}), "spec.owner.email:") for email in UNREACHABLE),
        (alpha("x", name=5), "spec.name"),
        (alpha("x", species="Dragon"), 'spec.type: Unsupported value: "dragon"'),
        (alpha("x", birthday="soon"), "spec.birthday"),
        (alpha("x", birthday="2021-04-01"), "spec.birthday"),
        (alpha("x", birthday=f"2021-04-01T00:00:00.{'9' * 200}Z"), "spec.birthday"),
        (beta("x", birthday="2021-04-01T12:00:00Z"), "spec.birthday"),
    ],
    ids=lambda value: value["apiVersion"][-7:] if isinstance(value, dict) else value,
)
def test_what_no_rule_can_read_is_refused_by_the_schema(
    person: Person, pet: dict[str, Any], said: str
) -> None:
    resource = ALPHA if pet["apiVersion"].endswith("v1alpha1") else BETA
    assert said in person.plane.api.refusal(person.path(resource), pet)


def test_a_birthday_that_cannot_be_is_refused_however_it_is_written(person: Person) -> None:
    for verb in (("create",), ("apply",), ("apply", "--server-side")):
        for pet in (beta("thor", birthday="2999-01-01"), alpha("thor", birthday="2999-01-01T00:00:00Z")):
            said = person.cannot(*verb, given=pet)
            assert FUTURE in said, verb
            assert '"thor"' in said
            assert "in UTC" in said
    said = person.cannot("create", given=beta("thor", birthday="1899-12-31"))
    assert 'spec.birthday: Invalid value: "1899-12-31": must not be before 1900-01-01' in said
    # Of v1alpha1, whose schema takes it for a moment.
    said = person.cannot("create", given=alpha("thor", birthday="0000-01-01T00:00:00Z"))
    assert 'spec.birthday: Invalid value: "0000-01-01T00:00:00Z": must be a day of the calendar' in said
    assert person.sees(BETA) == []


def test_in_an_editor_the_reason_is_shown_and_the_change_is_kept_in_a_file(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An editor that makes the change at first, and gives up when it is shown why that is refused.
    editor, shown = tmp_path / "editor", tmp_path / "shown"
    editor.write_text(f"#!/bin/sh\ncp $1 {shown}\ngrep -q 2999 $1 || sed -i 's/2021-04-01/2999-01-01/' $1\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("KUBE_EDITOR", str(editor))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    person.can("create", given=beta("thor"))
    assert "A copy of your changes has been stored" in person.cannot("edit", BETA, "thor")
    assert f"# * {FUTURE}" in shown.read_text()
    assert person.reads(BETA, "thor")["spec"]["birthday"] == "2021-04-01"


def test_an_old_pet_that_no_rule_would_let_in_is_edited_as_ever(keeper: Person) -> None:
    pet = "of-the-future"
    assert keeper.can("label", BETA, pet, "good=yes") == []
    assert keeper.can("annotate", ALPHA, pet, "seen=today") != []  # the version is deprecated
    keeper.can("patch", BETA, pet, "--subresource=status", "--type=merge", "-p", '{"status": {"id": "1"}}')
    assert keeper.reads(BETA, pet)["metadata"]["generation"] == 1, "the name has been trimmed on the way"
    assert keeper.can("patch", BETA, pet, *spec(species="cat")) != []
    assert "spec.birthday" in keeper.cannot("patch", BETA, pet, *spec(birthday="2998-01-01"))
    found = keeper.reads(BETA, pet)
    assert (found["spec"]["name"], found["spec"]["birthday"]) == (" Thor ", "2999-01-01")


def test_an_old_pet_that_is_deleted_goes(keeper: Person) -> None:
    keeper.can("delete", BETA, "going", "--wait=false")
    # What is wrong with it may even become something else: it goes.
    keeper.can("patch", BETA, "going", *spec(birthday="1067-01-01", species="cat"))
    keeper.can("patch", BETA, "going", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    eventually(lambda: "going" not in keeper.sees(BETA))


# Memcached.


def test_more_servers_than_most_people_want_are_warned_about(person: Person) -> None:
    assert person.can("create", given=memcached("m", size=1000)) == []
    (warning,) = person.can("create", given=memcached("large", size=1001))
    assert warning.startswith("spec.size: 1001 ")
    (warning,) = person.can("patch", "memcached", "large", *spec(size=1002))
    assert warning.startswith("spec.size: 1002 ")
    assert person.can("label", "memcached", "large", "a=b") == []
    assert person.can("patch", "memcached", "large", *spec(size=1001)) == []
    assert person.can("create", "--dry-run=server", given=memcached("other", size=2000)) != []
    assert sorted(person.sees(MEMCACHEDS)) == ["large", "m"]


# Wordpress.


def test_what_a_new_site_leaves_open_is_warned_about_without_showing_it(person: Person) -> None:
    (warning,) = person.can("create", given=wordpress("blog", serviceType="ClusterIP"))
    assert warning.startswith("spec.sqlrootpassword: ")
    assert PASSWORD not in warning
    assert person.can("label", "wordpress", "blog", "a=b") == []
    reference = {"name": "given", "key": "root"}
    (warning,) = person.can("create", given=wordpress("other", sqlRootPasswordSecretRef=reference))
    assert warning.startswith("spec.serviceType: NodePort lets whoever comes first install WordPress")


# Nobody has rules for these.


def test_kinds_without_rules_are_not_asked_about(asked: ControlPlane) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
    found = [
        rule["resources"]
        for sort in ("mutating", "validating")
        for configuration in asked.api.get(path.format(sort))["items"]
        for webhook in configuration["webhooks"]
        for rule in webhook["rules"]
    ]
    assert sorted(found) == [["memcacheds"], ["pets"], ["pets"], ["wordpresses"]]
