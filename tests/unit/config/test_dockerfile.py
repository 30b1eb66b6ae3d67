"""The Dockerfile follows best practices."""

from __future__ import annotations

import re

import pytest

from tests.support import ROOT
from tests.support.dockerfile import Dockerfile

DOCKERFILE = Dockerfile.read()
TARGETS = ("manager", "petstore", "dev")
NOBODY = "65532:65532"


def test_dockerfile_base_image_has_a_digest_or_a_comment_that_explains_its_absence():
    bases = {stage.base for stage in DOCKERFILE.stages.values()} - DOCKERFILE.stages.keys() - {"scratch"}
    assert len(bases) == 1
    found = re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", *bases)
    assert found is not None
    says_why = re.search(r"\n# No digest: .+\nARG PYTHON_IMAGE=", (ROOT / "Dockerfile").read_text())
    assert (found[1] is None) is (says_why is not None)


@pytest.mark.parametrize("target", TARGETS)
def test_image_runs_as_user_nobody_and_starts_its_program_without_a_shell(target: str):
    users = [each.text for stage in DOCKERFILE.lineage(target) for each in stage.of("USER")]
    assert users[-1] == NOBODY
    for name in ("ENTRYPOINT", "CMD"):
        (instruction,) = DOCKERFILE.stages[target].of(name)
        assert instruction.text.startswith("[")


@pytest.mark.parametrize("target", TARGETS)
def test_image_copies_the_slim_stage_into_scratch_and_has_no_build_tools(target: str):
    base, *_ = DOCKERFILE.lineage(target)
    assert base.base == "scratch"
    (whole,) = base.of("COPY")
    assert (whole.flags, whole.arguments) == ({"from": "slim"}, ["/", "/"])
    for stage in (DOCKERFILE.stages["slim"], *DOCKERFILE.lineage(target)):
        for copy in stage.of("COPY"):
            if copy.flags.get("from") == "build":
                assert copy.arguments == ["/opt/operator-manager", "/opt/operator-manager"]
        for run in stage.of("RUN"):
            assert not re.search(r"\b(apt-get|pip install|gcc|curl|wget)\b", run.text)


def test_dockerfile_installs_requirements_only_from_wheels_with_checked_hashes():
    installs = [
        line
        for run in DOCKERFILE.stages["build"].of("RUN")
        for line in run.text.split("&&")
        if "--requirement" in line
    ]
    assert len(installs) == 2
    assert all("--only-binary :all: --no-deps --require-hashes" in line for line in installs)


def test_dockerignore_allows_only_the_paths_that_images_copy():
    copies = (copy for stage in DOCKERFILE.stages.values() for copy in stage.of("COPY"))
    copied = {name for copy in copies if "from" not in copy.flags for name in copy.arguments[:-1]}
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    # The image of the OLM bundle is built from the same folder.
    assert {line[1:] for line in lines if line.startswith("!")} == {*copied, "bundle"}
    assert all((ROOT / name).exists() for name in copied)
