"""A site's passwords: where the root password comes from, and the Secret that keeps both.

They never sit in the cache: of Secrets only the metadata is watched, and the content is read from the server
when a Secret has changed. No message, Event or error made here has a password in it.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from dataclasses import dataclass

from apis.example.v1.wordpress import PASSWORD_LENGTH, PASSWORD_PATTERN, Wordpress
from controllers.adoption import check_still_wanted
from controllers.example.wordpress.names import DATABASE, child_metadata, secret_key
from controllers.example.wordpress.obstacles import Obstacle, Trouble, refused
from controllers.example.wordpress.ownership import check_ours, claim_for, is_claimed_for
from controllers.example.wordpress.workloads import ROOT_PASSWORD, USER_PASSWORD
from manager.api import ObjectKey, PartialObjectMetadata, find_condition
from manager.api.core_v1 import PersistentVolumeClaim, Secret
from manager.client import Client
from manager.events import EventRecorder
from manager.kube.errors import ApiError, Forbidden, Invalid, ProtocolError

__all__ = ["Passwords"]

_FITTING = re.compile(PASSWORD_PATTERN)
# Random bytes in the password of the database user; written in letters, digits, "-" and "_".
_STRENGTH = 24

# What the server says of a body that it does not take may quote it.
_UNTOLD = "what the API server says of it may quote a password, and is not passed on"

_Version = tuple[str, str]
"""UID and resourceVersion: what identifies an object's content."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What was found in the site's Secret, and what it was found from."""

    site: str
    """UID of the site, whose own password never changes."""
    secret: _Version
    reference: _Version | None
    missing: tuple[str, ...]
    differs: bool


class Passwords:
    """Sees to the Secrets of all sites."""

    def __init__(self, client: Client, events: EventRecorder) -> None:
        self._client = client
        self._events = events
        self._verdicts: dict[ObjectKey, _Verdict] = {}

    async def ensure(self, site: Wordpress) -> list[Trouble]:
        """Make sure of the site's Secret, and return what is not as wanted with it.

        Raises Obstacle when there is none, and it cannot be made yet, or one that cannot be used; and
        NotWanted when the site is gone and the cache has not heard of it yet.
        """
        key = secret_key(site)
        held = await self._client.metadata.find(Secret, key)
        if held is None:
            await self._create(site)
            return []
        check_ours("Secret", held.metadata, site)
        reference = await self._reference_metadata(site)
        verdict = self._verdicts.get(site.key)
        if (
            verdict is None
            or (verdict.site, verdict.secret) != (site.metadata.uid, _version(held))
            or verdict.reference != (_version(reference) if reference else None)
            or not is_claimed_for(held.metadata, site, DATABASE)
        ):
            verdict = await self._examine(site, reference)
            self._verdicts[site.key] = verdict
        if verdict.missing:
            lacks = " and ".join(verdict.missing)
            message = f"Secret {key.name} has nothing under {lacks}, which the site needs"
            raise Obstacle(Trouble("SecretIncomplete", message), awaited=True)
        return [_differs(key.name)] if verdict.differs else []

    def forget(self, site: ObjectKey) -> None:
        """Drop what is remembered of a site that is gone."""
        self._verdicts.pop(site, None)

    async def _create(self, site: Wordpress) -> None:
        # What the site retains outlives it, and nobody else would remove it.
        await check_still_wanted(self._client, site)
        # First, so that a change between this and reading its value is seen as one.
        reference = await self._reference_metadata(site)
        root = await self._root_password(site)
        key = secret_key(site)
        values = {ROOT_PASSWORD: root, USER_PASSWORD: secrets.token_urlsafe(_STRENGTH)}
        secret = Secret(
            metadata=child_metadata(site, DATABASE, key.name),
            type="Opaque",
            # The database has them, and nobody can change them there by changing them here.
            immutable=True,
            data={name: base64.b64encode(value.encode()).decode() for name, value in values.items()},
        )
        claim_for(secret.metadata, site, DATABASE)
        try:
            stored = await self._client.create(secret)
        except (Forbidden, Invalid) as error:
            raise refused(f"Secret {key.name}", f"{error.status} {error.reason} ({_UNTOLD})") from None
        except ApiError as error:
            message = f"creating Secret {key.name} failed with {error.status} {error.reason}"
            raise type(error)(error.status, error.reason, message, retry_after=error.retry_after) from None
        except ProtocolError:
            raise ProtocolError(f"the answer to creating Secret {key.name} is not a Secret") from None
        self._verdicts[site.key] = _judge(site, stored, reference, root)
        self._events.event(site, "Normal", "Created", f"Created Secret {key.name}")
        if await self._had_database(site):
            message = (
                f"Secret {key.name} was gone, and has a new generated password now: if the volume has a"
                " database already, its user wordpress has to be given that"
            )
            self._events.event(site, "Warning", "PasswordRenewed", message)

    async def _examine(self, site: Wordpress, reference: PartialObjectMetadata | None) -> _Verdict:
        """Read the Secret itself, and put its labels and owner right."""
        secret = await self._client.uncached.get(Secret, secret_key(site))
        root = await self._known_root_password(site) if secret.value(ROOT_PASSWORD) else None
        # Nobody may have taken it over since the cache last heard of it.
        check_ours("Secret", secret.metadata, site)
        if not is_claimed_for(secret.metadata, site, DATABASE):
            await check_still_wanted(self._client, site)
            claim_for(secret.metadata, site, DATABASE)
            secret = await self._client.patch(secret)
            if site.metadata.generation == site.status.observed_generation:
                message = f"Put Secret {secret.metadata.name} back as it should be"
                self._events.event(site, "Normal", "Restored", message)
        return _judge(site, secret, reference, root)

    async def _had_database(self, site: Wordpress) -> bool:
        """Whether there may have been a database before the site's Secret was made."""
        seen = find_condition(site.status.conditions, "DatabaseReady")
        if seen is not None and seen.reason != "NotCreated":
            return True
        key = ObjectKey(site.metadata.namespace, DATABASE.claim(site))
        claim = await self._client.find(PersistentVolumeClaim, key)
        made = claim.metadata.creation_timestamp if claim is not None else None
        since = site.metadata.creation_timestamp
        return made is not None and since is not None and made < since

    async def _reference_metadata(self, site: Wordpress) -> PartialObjectMetadata | None:
        """The Secret that the site names for its root password, as far as it is cached."""
        reference = site.spec.sql_root_password_secret_ref
        if reference is None:
            return None
        return await self._client.metadata.find(Secret, ObjectKey(site.metadata.namespace, reference.name))

    async def _known_root_password(self, site: Wordpress) -> str | None:
        """The root password, or None when it is not there: what has been stored already does not need it."""
        try:
            return await self._root_password(site)
        except Obstacle:
            return None

    async def _root_password(self, site: Wordpress) -> str:
        """The root password that the site gives or names; raises Obstacle when it is not there."""
        spec = site.spec
        if spec.sqlrootpassword:
            return spec.sqlrootpassword
        reference = spec.sql_root_password_secret_ref
        if reference is None:
            # The server lets no such object pass; one may be left from before it had the rule.
            raise _awaited("NoRootPassword", "neither sqlrootpassword nor sqlRootPasswordSecretRef is given")
        name, where = reference.name, f"Secret {reference.name}"
        secret = None
        if await self._reference_metadata(site) is not None:
            secret = await self._client.uncached.find(Secret, ObjectKey(site.metadata.namespace, name))
        if secret is None:
            raise _awaited("SecretNotFound", f"waiting for {where}, which is to hold the root password")
        value = secret.value(reference.key)
        if value is None:
            raise _awaited("SecretKeyNotFound", f"{where} has no key {reference.key} for the root password")
        if not value:
            raise _awaited("SecretKeyEmpty", f"{where} has nothing under key {reference.key}")
        text = value.decode("ascii", "replace")
        if len(text) > PASSWORD_LENGTH or not _FITTING.fullmatch(text):
            raise _awaited(
                "SecretValueUnfit",
                f"{where} has under key {reference.key} what cannot be a root password: that is at most"
                f" {PASSWORD_LENGTH} printable ASCII characters other than quotes and backslashes, without a"
                " line break at its end",
            )
        return text


def _judge(
    site: Wordpress, secret: Secret, reference: PartialObjectMetadata | None, root: str | None
) -> _Verdict:
    """What is to be said of the Secret, where the root password is to be `root`, or is not known."""
    missing = tuple(name for name in (ROOT_PASSWORD, USER_PASSWORD) if not secret.value(name))
    differs = False
    if root is not None and (stored := secret.value(ROOT_PASSWORD)):
        differs = not hmac.compare_digest(root.encode(), stored)
    return _Verdict(
        site=site.metadata.uid,
        secret=_version(secret),
        reference=_version(reference) if reference else None,
        missing=missing,
        differs=differs,
    )


def _version(obj: Secret | PartialObjectMetadata) -> _Version:
    return obj.metadata.uid, obj.metadata.resource_version


def _awaited(reason: str, message: str) -> Obstacle:
    return Obstacle(Trouble(reason, message), awaited=True)


def _differs(name: str) -> Trouble:
    return Trouble(
        "RootPasswordDiffers",
        f"the database was made with another root password, which Secret {name} still has; it stays in force",
    )
