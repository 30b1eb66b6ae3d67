"""A site's passwords: the source of the root password, and the Secret for MySQL's users root and wordpress.

The cache has only the metadata of Secrets. The operator reads the content from the API server when a Secret
has changed. No message, Event or error of this module contains a password.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from apis.example.v1.wordpress import DATABASE_READY, PASSWORD_LENGTH, PASSWORD_PATTERN, Wordpress
from controllers.example.parts import (
    DATABASE,
    RETRY_REFUSED,
    ROOT_PASSWORD,
    USER_PASSWORD,
    Trouble,
    check_ours,
    claim_for,
    is_claimed_for,
    is_refusal,
    take_up,
)
from manager import Blocked, Context, ObjectKey, Resource
from manager.api import PartialObjectMetadata, find_condition
from manager.kube.errors import ApiError, ProtocolError
from manager_kinds.core_v1 import PersistentVolumeClaim, Secret

_FITTING = re.compile(PASSWORD_PATTERN)
# The number of random bytes in the database user's password, which consists of letters, digits, "-" and "_".
_STRENGTH = 24

_awaited = partial(Blocked, awaited=True)

_Version = tuple[str, str] | None
"""UID and resourceVersion, which identify an object's content; None without an object."""


class _Verdict(NamedTuple):
    """The result of the last check of a site's Secret, with the versions of the objects in the check."""

    site: str  # the site's UID is enough: a password in its spec never changes
    secret: _Version
    source: _Version
    missing: list[str]
    differs: bool


class Passwords:
    """The results of the checks of all sites' Secrets."""

    def __init__(self) -> None:
        self._verdicts: dict[ObjectKey, _Verdict] = {}

    async def ensure(self, site: Wordpress, ctx: Context) -> list[Trouble]:
        """Create or check the site's Secret, and return its problems.

        Raises:
            Blocked: the Secret does not exist and cannot be created yet, or exists and cannot be used.
        """
        name = DATABASE.workload(site)
        held = await _metadata(name, ctx)
        # Read the version before the content, so that a change in between is noticed.
        reference = site.spec.sql_root_password_secret_ref
        source = _version(await _metadata(reference.name, ctx) if reference else None)
        if held is None:
            await self._create(site, source, ctx)
            return []
        check_ours("Secret", held.metadata, site, ctx.program)
        verdict = self._verdicts.get(site.key)
        if (
            verdict is None
            or verdict[:3] != (site.metadata.uid, _version(held), source)
            or not is_claimed_for(held.metadata, site, DATABASE, ctx.program)
        ):
            with _unquoted(f"reading Secret {name}"):
                secret = await ctx.client.uncached.get(Secret, ObjectKey(site.metadata.namespace, name))
            # Another owner may have taken the Secret since the last update of the cache.
            with _unquoted(f"changing Secret {name}"):
                secret = await take_up(secret, site, DATABASE, ctx)
            try:
                root = await _root_password(site, ctx) if secret.value(ROOT_PASSWORD) else None
            except Blocked:
                root = None  # a stored password needs no source
            verdict = self._verdicts[site.key] = _judge(site, secret, source, root)
        if verdict.missing:
            lacks = " and ".join(verdict.missing)
            message = f"Secret {name} has nothing under {lacks}, which the site needs"
            raise _awaited("SecretIncomplete", message)
        if verdict.differs:
            message = f"the database was created with another root password, which Secret {name} still has"
            return [Trouble("RootPasswordDiffers", f"{message}; it stays in force")]
        return []

    async def check(self, site: Wordpress, ctx: Context) -> None:
        """Raise Blocked if the site's Secret is missing and there is no root password to create it with."""
        if await _metadata(DATABASE.workload(site), ctx) is None:
            await _root_password(site, ctx)

    def forget(self, site: ObjectKey) -> None:
        """Delete the stored results of the checks of a deleted site."""
        self._verdicts.pop(site, None)

    async def _create(self, site: Wordpress, source: _Version, ctx: Context) -> None:
        await ctx.confirm()  # a retained Secret would outlive a deleted site
        name, root = DATABASE.workload(site), await _root_password(site, ctx)
        values = {ROOT_PASSWORD: root, USER_PASSWORD: ctx.token(_STRENGTH)}
        secret = Secret(
            metadata=DATABASE.metadata(site, name, ctx.program),
            type="Opaque",
            # The database uses these passwords, and a change of the Secret would not change the database.
            immutable=True,
            data={key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
        )
        claim_for(secret.metadata, site, DATABASE, ctx.program)
        try:
            stored = await ctx.client.create(secret)
        except ApiError as error:
            if not is_refusal(error):
                raise _unquoted_error(f"creating Secret {name}", error) from None
            untold = "the API server's message may quote a password, and is withheld"
            message = f"Secret {name} is refused: {error.status} {error.reason} ({untold})"
            raise Blocked("Refused", message, retry_after=RETRY_REFUSED) from None
        except ProtocolError:
            raise ProtocolError(f"the answer to creating Secret {name} is not a Secret") from None
        self._verdicts[site.key] = _judge(site, stored, source, root)
        ctx.event("Created", f"Created Secret {name}")
        if await _had_database(site, ctx):
            message = (
                f"Secret {name} was gone, and has a new generated password now: if the volume has a"
                " database already, set this password for the database's user wordpress"
            )
            ctx.event("PasswordRenewed", message, warning=True)


@contextmanager
def _unquoted(doing: str) -> Iterator[None]:
    """Replace the message of API errors, which may contain a password from the Secret."""
    try:
        yield
    except ApiError as error:
        raise _unquoted_error(doing, error) from None


def _unquoted_error(doing: str, error: ApiError) -> ApiError:
    message = f"{doing} failed with {error.status} {error.reason}"
    details = {name: error.details[name] for name in ("name", "kind") if name in error.details}
    return type(error)(error.status, error.reason, message, details, retry_after=error.retry_after)


async def _root_password(site: Wordpress, ctx: Context) -> str:
    """Return the root password from the site or from the Secret that it names; raises Blocked without one."""
    if site.spec.sqlrootpassword:
        return site.spec.sqlrootpassword
    reference = site.spec.sql_root_password_secret_ref
    if reference is None:
        # The API server refuses such an object, but an old object may be from before this rule.
        raise _awaited("NoRootPassword", "neither sqlrootpassword nor sqlRootPasswordSecretRef is given")
    name, where = reference.name, f"Secret {reference.name}"
    secret = None
    if await _metadata(name, ctx) is not None:
        with _unquoted(f"reading {where}"):
            secret = await ctx.client.uncached.find(Secret, ObjectKey(site.metadata.namespace, name))
    if secret is None:
        raise _awaited("SecretNotFound", f"waiting for {where} with the root password")
    value = secret.value(reference.key)
    if value is None:
        raise _awaited("SecretKeyNotFound", f"{where} has no key {reference.key} for the root password")
    if not value:
        raise _awaited("SecretKeyEmpty", f"{where} has nothing under key {reference.key}")
    text = value.decode("ascii", "replace")
    if len(text) > PASSWORD_LENGTH or not _FITTING.fullmatch(text):
        raise _awaited(
            "SecretValueUnfit",
            f"{where} has no valid root password under key {reference.key}: at most {PASSWORD_LENGTH}"
            " printable ASCII characters other than quotes and backslashes are expected, without a line"
            " break at the end",
        )
    return text


async def _had_database(site: Wordpress, ctx: Context) -> bool:
    """Return whether the site may have had a database before its Secret was created."""
    seen = find_condition(site.status.conditions, DATABASE_READY)
    if seen is not None and seen.reason != "NotCreated":
        return True
    claim = await ctx.find(PersistentVolumeClaim, DATABASE.claim(site))
    made = claim.metadata.creation_timestamp if claim is not None else None
    since = site.metadata.creation_timestamp
    return made is not None and since is not None and made < since


def _judge(site: Wordpress, secret: Secret, source: _Version, root: str | None) -> _Verdict:
    """Compare the Secret with the root password `root`, which is None if it is unknown."""
    missing = [name for name in (ROOT_PASSWORD, USER_PASSWORD) if not secret.value(name)]
    stored = secret.value(ROOT_PASSWORD)
    differs = root is not None and bool(stored) and not hmac.compare_digest(root.encode(), stored or b"")
    return _Verdict(site.metadata.uid, _version(secret), source, missing, differs)


async def _metadata(name: str, ctx: Context) -> PartialObjectMetadata | None:
    return await ctx.client.metadata.find(Secret, ObjectKey(ctx.object.metadata.namespace, name))


def _version(obj: Resource | PartialObjectMetadata | None) -> _Version:
    return None if obj is None else (obj.metadata.uid, obj.metadata.resource_version)
