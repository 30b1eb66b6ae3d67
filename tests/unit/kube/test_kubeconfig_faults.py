from __future__ import annotations

from pathlib import Path

import pytest

from manager.kube.errors import ConfigError
from manager.kube.kubeconfig import read_kubeconfig


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"users: [{name: admin, user: {token: hunter2 ]", "not valid YAML in line 1: expected ',' or '}'"),
        (b"apiVersion: v1\nusers:\n- token: hunter2\n  'token\n", "not valid YAML in line 5: "),
        (b"token: hunter2\xff\xfe", "not valid YAML: "),
    ],
)
def test_a_file_that_is_not_yaml_is_told_by_its_line_and_not_by_its_content(
    tmp_path: Path, content: bytes, expected: str
):
    file = tmp_path / "config"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        read_kubeconfig([file], source="--kubeconfig")
    assert str(error.value).startswith(f"{file}: {expected}")
    assert "hunter2" not in str(error.value)
