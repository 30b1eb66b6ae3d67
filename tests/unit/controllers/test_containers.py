"""Images and proxy variables that operators give to the containers of their objects."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from apis.example.v1.wordpress import Wordpress, WordpressSpec
from controllers.cache.memcached import MemcachedOperator
from controllers.example.wordpress import WordpressOperator
from manager import AnyOperator
from manager.api import ObjectMeta, Resource, is_true
from manager_kinds.apps_v1 import Deployment
from manager_tools.testing import operated
from tests.support.settings import load_declared

pytestmark = pytest.mark.virtual_time

OPERATORS: dict[AnyOperator, tuple[Resource, dict[str, tuple[str, str]]]] = {
    MemcachedOperator: (
        Memcached(metadata=ObjectMeta(name="own"), spec=MemcachedSpec(size=1)),
        {"own": ("memcached-image", "image")},
    ),
    WordpressOperator: (
        Wordpress(metadata=ObjectMeta(name="own"), spec=WordpressSpec(sqlrootpassword="in-the-open")),
        {"own": ("wordpress-image", "image"), "own-mysql": ("mysql-image", "mysql_image")},
    ),
}
"""An object of each operator; for each Deployment the setting and the spec field of its image."""


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
@pytest.mark.parametrize(("proxied", "unset"), [(False, None), (True, "")])
async def test_container_uses_image_of_the_spec_or_settings_and_proxy_variables_of_the_manager(
    operator: AnyOperator, proxied: bool, unset: str | None, monkeypatch: pytest.MonkeyPatch
):
    proxy = {"HTTPS_PROXY": "http://proxy.local:3128", "NO_PROXY": "127.0.0.1"} if proxied else {}
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        for each in (name, name.lower()):
            monkeypatch.delenv(each, raising=False)
        if name in proxy:
            monkeypatch.setenv(name, proxy[name])
    own, images = OPERATORS[operator]
    plain = own.model_copy(deep=True)
    plain.metadata.name = "plain"
    own = own.model_copy(deep=True)
    for _, field in images.values():
        setattr(own.spec, field, f"registry.local/{field}:own")  # type: ignore[attr-defined]
        setattr(plain.spec, field, unset)  # type: ignore[attr-defined]
    settings = load_declared(operator.declared_settings, {name: f"{name}:set" for name, _ in images.values()})
    values = {each: settings[each] for each in operator.declared_settings}
    async with operated(operator, objects=[plain, own], settings=values) as world:
        for each in (plain, own):
            await world.until(each, lambda it: is_true(it.status.conditions, "Available"))  # type: ignore[attr-defined]
        for name, (setting, field) in images.items():
            container = await container_of(world, name)
            assert container["image"] == f"registry.local/{field}:own"
            container = await container_of(world, name.replace("own", "plain"))
            assert container["image"] == f"{setting}:set"
            found = {each["name"]: each.get("value") for each in container.get("env", ())}
            spelled = {**proxy, **{key.lower(): value for key, value in proxy.items()}}
            assert {key: value for key, value in found.items() if "proxy" in key.lower()} == spelled


async def container_of(world: Any, name: str) -> dict[str, Any]:
    return (await world.get(Deployment, name)).spec["template"]["spec"]["containers"][0]
