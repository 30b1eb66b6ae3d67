from __future__ import annotations

import pytest

from devcluster.storage.selectors import FieldSelector, LabelSelector, SelectorError

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": ""}
NOT_A_NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"
OPERATORS = "in, notin, =, ==, !=, gt, lt"


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("! old", True),
        ("app=web", True),
        ("app == web , tier!=back", True),
        ("app!=web", False),
        ("old!=web", True),
        ("old=web", False),
        ("app in (web,api)", True),
        ("app in ( api )", False),
        ("app notin (api)", True),
        ("old notin (api)", True),
        ("empty in ()", True),
        ("empty=", True),
        ("app in (,)", False),
        ("empty in (,x)", True),
        ("n>4,n<6", True),
        ("n>5", False),
        ("app>1", False),
        ("in in (notin)", False),
    ],
)
def test_label_selectors_match_as_on_the_real_server(text: str, matches: bool):
    assert LabelSelector.parse(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b,", "found '', expected: identifier after ','"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a b", f"unable to parse requirement: found 'b', expected: {OPERATORS}"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a!=b,,c", "found ',', expected: identifier after ','"),
        ("(", "found '(', expected: !, identifier, or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a,b,c d", f"unable to parse requirement: found 'd', expected: {OPERATORS}"),
        ("a>x", f'unable to parse requirement: values[0]: Invalid value: "x": {NOT_A_NUMBER}'),
        ("-a=b", 'unable to parse requirement: <nil>: Invalid value: "-a"'),
        ("a=-b", "unable to parse requirement: values[0][a]: "),
    ],
)
def test_wrong_label_selector_gets_the_message_of_the_real_server(text: str, message: str):
    with pytest.raises(SelectorError) as raised:
        LabelSelector.parse(text)
    assert str(raised.value).startswith(message)


def test_label_selector_of_an_object_matches_labels_and_expressions():
    assert LabelSelector.of({}).matches(LABELS)
    assert not LabelSelector.of(None).matches(LABELS)
    assert LabelSelector.of({"matchLabels": {"app": "web"}}).matches(LABELS)
    expressions = [
        {"key": "tier", "operator": "In", "values": ["front"]},
        {"key": "x", "operator": "DoesNotExist"},
    ]
    assert LabelSelector.of({"matchExpressions": expressions}).matches(LABELS)
    with pytest.raises(SelectorError):
        LabelSelector.of({"matchExpressions": [{"key": "a", "operator": "Near"}]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("metadata.name=a,b", "invalid selector: 'metadata.name=a,b'; can't understand 'b'"),
        ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
        ("metadata.name=a\\qb", "invalid field selector: invalid escape sequence: \\q"),
    ],
)
def test_wrong_field_selector_gets_the_message_of_the_real_server(text: str, message: str):
    with pytest.raises(SelectorError) as raised:
        FieldSelector.parse(text)
    assert str(raised.value) == message


def test_field_selectors_compare_and_unescape():
    selector = FieldSelector.parse("metadata.name==a\\,b,status.phase!=Running,")
    assert selector.fields == ["metadata.name", "status.phase"]
    assert selector.value_of("metadata.name") == "a,b"
    assert selector.matches({"metadata.name": "a,b", "status.phase": "Pending"})
    assert selector.matches({"metadata.name": "a,b"})
    assert not selector.matches({"metadata.name": "a,b", "status.phase": "Running"})
    assert FieldSelector.parse(",").empty
