"""Simulated programs of known images, and the parsing of image names."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.controllers.images import (
    Exited,
    HttpRequest,
    ImageReference,
    InvalidImageName,
    Running,
    Start,
    memcached,
    mysql,
    wordpress,
)


def started(image: str, *command: str, **more: Any) -> Start:
    return Start("c", ImageReference.parse(image), command, **more)


@pytest.mark.parametrize(
    ("line", "code", "last"),
    [
        ("-m=64 -o modern -v", 64, "Cannot set item size limit higher than 1/2 of memory max."),
        ("-m 1", 64, "Cannot set item size limit higher than 1/2 of memory max."),
        ("-m 64 -I 64m", 64, "Cannot set item size limit higher than 1/2 of memory max."),
        ("-m 4096 -I 1100m", 64, "Cannot set item size limit higher than a gigabyte."),
        ("-I 10", 64, "Item max size cannot be less than 1024 bytes."),
        ("-Q", 1, 'Illegal argument "?"'),
        ("--nonsense", 1, 'Illegal argument "?"'),
        ("-m", 1, 'Illegal argument "?"'),
        ("-t 0", 1, "Number of threads must be greater than 0"),
        ("--threads=x", 1, "Number of threads must be greater than 0"),
        ("-d", 0, ""),
    ],
)
def test_memcached_image_exits_for_an_invalid_command_line_or_option_d(line: str, code: int, last: str):
    outcome = memcached(started("memcached:1.6", "memcached", *line.split()))
    assert (outcome.code, [*outcome.log, ""][len(outcome.log) - 1]) == (code, last)


@pytest.mark.parametrize(
    ("line", "ports", "megabytes"),
    [
        ("-m 64 -o modern -v", {11211: None}, 64),
        ("-m64", {11211: None}, 64),
        ("--memory-limit=64 --port 11300", {11300: None}, 64),
        ("-m 2", {11211: None}, 2),
        ("", {11211: None}, 64),
        ("-l 127.0.0.1", {}, 64),
    ],
)
def test_memcached_image_uses_the_port_and_memory_of_its_command_line(line: str, ports: dict, megabytes: int):
    outcome = memcached(started("memcached:1.6", "memcached", *line.split()))
    assert outcome == Running(ports=ports, memory=megabytes * 1024 * 1024)


def test_memcached_image_passes_args_to_memcached_when_no_command_is_set():
    assert isinstance(memcached(started("memcached", args=["-m", "1"])), Exited)
    assert memcached(started("memcached", "sleep", "60")) == Running()


def test_memcached_image_refuses_to_run_as_root_without_a_user_option():
    outcome = memcached(started("memcached", user=0))
    assert outcome == Exited(64, ("can't run as root without the -u switch",))
    assert isinstance(memcached(started("memcached", "memcached", "-u", "memcache", user=0)), Running)


@pytest.mark.parametrize(
    ("env", "exits"),
    [
        ({}, True),
        ({"MYSQL_ROOT_PASSWORD": ""}, True),
        ({"MYSQL_ROOT_PASSWORD": "x"}, False),
        ({"MYSQL_ALLOW_EMPTY_PASSWORD": "yes"}, False),
        ({"MYSQL_ROOT_PASSWORD": "x", "MYSQL_USER": "root"}, True),
    ],
)
def test_mysql_image_exits_without_a_root_password_or_with_mysql_user_root(env: dict[str, str], exits: bool):
    outcome = mysql(started("mysql:8.4", env=env))
    assert isinstance(outcome, Exited) is exits
    assert not isinstance(outcome, Exited) or outcome.code == 1


@pytest.mark.parametrize(
    ("path", "headers", "status", "location"),
    [
        ("/wp-login.php", {}, 302, "http://blog.x.svc/wp-admin/install.php"),
        ("/", {"x-forwarded-proto": "https"}, 302, "https://blog.x.svc/wp-admin/install.php"),
        ("/wp-admin/install.php", {"x-forwarded-proto": "https"}, 200, ""),
        ("/readme.html", {}, 200, ""),
    ],
)
def test_wordpress_image_redirects_to_its_installer(path: str, headers: dict, status: int, location: str):
    outcome = wordpress(started("wordpress:6.8-apache"))
    response = outcome.ports[80](HttpRequest("blog.x.svc", path, headers))
    assert (response.status, response.location) == (status, location)


def test_wordpress_fpm_image_serves_no_http():
    assert wordpress(started("wordpress:6.8-fpm")) == Running(ports={9000: None})


@pytest.mark.parametrize(
    ("text", "full", "program"),
    [
        ("memcached", "docker.io/library/memcached:latest", "memcached"),
        ("bitnami/memcached:1", "docker.io/bitnami/memcached:1", "memcached"),
        ("localhost:5000/a/b:x", "localhost:5000/a/b:x", "b"),
        ("[::1]:5000/a", "[::1]:5000/a:latest", "a"),
        (f"ghcr.io/a/b@sha256:{'0' * 64}", f"ghcr.io/a/b@sha256:{'0' * 64}", "b"),
    ],
)
def test_image_reference_parse_adds_the_default_registry_and_tag(text: str, full: str, program: str):
    reference = ImageReference.parse(text)
    assert (reference.full, reference.program) == (full, program)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("web:", "invalid reference format"),
        ("web::1", "invalid reference format"),
        ("a b", "invalid reference format"),
        ("-/x", "invalid reference format"),
        ("ä", "invalid reference format"),
        ("Web:1", "invalid reference format: repository name (library/Web) must be lowercase"),
        ("x" * 300, "repository name must not be more than 255 characters"),
        ("0" * 64, f"invalid repository name ({'0' * 64}), cannot specify 64-byte hexadecimal strings"),
    ],
)
def test_image_reference_parse_refuses_an_invalid_name(text: str, message: str):
    with pytest.raises(InvalidImageName) as caught:
        ImageReference.parse(text)
    assert str(caught.value) == message
