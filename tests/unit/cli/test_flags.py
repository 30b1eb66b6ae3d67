from __future__ import annotations

import pytest

from controllers.main import PROGRAM
from manager.cli.arguments import UsageError
from manager.cli.flags import parse_flags


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], {}),
        (["--log-level=debug"], {"log-level": "debug"}),
        (["--log-level", "debug"], {"log-level": "debug"}),
        (["--log-level=debug", "--log-level=warn"], {"log-level": "warn"}),
        (["--leader-elect"], {"leader-elect": "true"}),
        (["--leader-elect=true"], {"leader-elect": "true"}),
        (["--leader-elect=false"], {"leader-elect": "false"}),
        (["--leader-elect", "false"], {"leader-elect": "false"}),
        (["--leader-elect", "--context=a"], {"leader-elect": "true", "context": "a"}),
        (["--controllers=*,-foo"], {"controllers": "*,-foo"}),
        (["--controllers=-foo"], {"controllers": "-foo"}),
        (["--concurrency=a=1", "--concurrency", "b=2,c=3"], {"concurrency": "a=1,b=2,c=3"}),
        (["--namespaces=a", "--namespaces=b"], {"namespaces": "a,b"}),
        (["--kubeconfig="], {"kubeconfig": ""}),
        (["--metrics-bind-address=[::]:8080"], {"metrics-bind-address": "[::]:8080"}),
    ],
)
def test_flags_are_read_as_go_programs_read_them(argv: list[str], expected: dict[str, str]):
    assert parse_flags(argv, (), PROGRAM) == expected


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--leader-elekt"], "run: unknown flag '--leader-elekt'; did you mean --leader-elect?"),
        (["--leader-elekt=true"], "run: unknown flag '--leader-elekt'; did you mean --leader-elect?"),
        (["--zzz", "value"], "run: unknown flag '--zzz'"),
        (["--kube=x"], "run: unknown flag '--kube'"),
        (["-v"], "run: unknown flag '-v'"),
        (["now"], "run: unexpected argument 'now'"),
        (["--kubeconfig"], "run: --kubeconfig needs a value, as in --kubeconfig=VALUE"),
        (["--controllers", "-foo"], "run: --controllers needs a value, as in --controllers=VALUE"),
    ],
)
def test_what_is_wrong_with_a_flag_is_told_in_one_line(argv: list[str], expected: str):
    with pytest.raises(UsageError) as error:
        parse_flags(argv, (), PROGRAM)
    assert str(error.value).startswith(expected)
    assert "\n" not in str(error.value)


def test_an_abbreviated_flag_is_unknown():
    with pytest.raises(UsageError, match="unknown flag '--log-lev'"):
        parse_flags(["--log-lev=debug"], (), PROGRAM)
