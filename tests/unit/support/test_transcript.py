from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.markdown import Block
from tests.support.transcript import Command, commands, difference


def block(language: str, *lines: str) -> Block:
    return Block(Path("page.md"), 7, language, "".join(f"{line}\n" for line in lines))


def test_each_line_of_sh_is_a_command_without_its_remark():
    lines = ("make venv", "# nothing to run", "", "make \\", "    test   # all of them", "echo '#'")
    assert [each.text for each in commands(block("sh", *lines))] == ["make venv", "make test", "echo '#'"]


def test_commands_of_a_console_follow_its_prompts_and_have_their_output():
    lines = ("$ first  # remark", "one", "", "two", "$ second &", "$ third")
    assert list(commands(block("console", *lines))) == [
        Command("page.md:7", "first", ("one", "two")),
        Command("page.md:7", "second &"),
        Command("page.md:7", "third"),
    ]
    assert [each.in_background for each in commands(block("console", *lines))] == [False, True, False]


@pytest.mark.parametrize(
    ("shown", "came"),
    [
        ("pod/jack created", "pod/jack created"),
        ("NAME   AGE\nfoo    3s", "NAME  AGE\nfoo   1m12s"),
        ("web-5b88b497d7-9bzms", "web-989968d58-5zhck"),
        ("id 9aeca4d5-c341-4a8c-8354-57e82e15d55f", "id 692ac84d-8cb6-4fe5-9759-ceb907693077"),
        ('["a-5b88b497d7-9bzms", ...]', '["a-989968d58-5zhck", "b"]'),
        ("first\n...\nlast", "first\nlast"),
        ("first\n...\nlast", "first\nsecond\n\nthird\nlast"),
        ("Created 5s manager", "Created 5s (x2 over 7s) manager"),
        ('pod "jack" deleted', 'pod "jack" deleted from default namespace'),
    ],
)
def test_difference_ignores_ages_hashes_uids_and_ellipses(shown: str, came: str):
    assert difference(shown.splitlines(), came) is None


@pytest.mark.parametrize(
    ("shown", "came"),
    [
        ("pod/jack created", "pod/jack unchanged"),
        ("NAME READY\nfoo 3", "NAME READY\nfoo 2"),
        ("first\n...\nlast", "first\nsecond"),
        ("one", "one\ntwo"),
        ("one\ntwo", "one"),
        ("memcached:1.6", "memcached:1x6"),
        ("foo-01", "foo-02"),
    ],
)
def test_difference_shows_both_texts_when_they_differ_otherwise(shown: str, came: str):
    assert difference(shown.splitlines(), came) == f"shown:\n{shown}\nwhat came:\n{came}"
