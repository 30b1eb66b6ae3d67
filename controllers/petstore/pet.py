"""Pet: keeps a record in a pet store equal to each Pet, and removes it with the Pet."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from apis.petstore.v1alpha1.pet import Pet as OldPet
from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.birthday import InvalidBirthday
from controllers.petstore.cached import CachedPets
from controllers.petstore.check import StoreCheck
from controllers.petstore.claims import Claims
from controllers.petstore.keeper import Keeper
from controllers.petstore.metrics import StoreMetrics
from controllers.petstore.notes import FINALIZER, OURS, Notes, PetChanged, PetGone, is_not_there, was_begun
from controllers.petstore.outlook import Outlook
from controllers.petstore.record import noted, wanted
from controllers.petstore.report import Reporter
from controllers.petstore.settings import (
    PETSTORE_ADDRESS,
    PETSTORE_CHECK_INTERVAL,
    PETSTORE_TIMEOUT,
    PETSTORE_TLS,
)
from manager.cache import CacheEvent
from manager.client import Client
from manager.controller import (
    ChannelSource,
    ControllerBuilder,
    ControllerOptions,
    Request,
    Result,
    any_of,
    generation_changed,
    termination_started,
)
from manager.kube.errors import Conflict, Invalid, NotFound
from manager.logs import reconcile_log
from manager.manager import Manager, Runnable
from manager.rate_limit import Repeats
from manager.rbac import rbac
from manager.settings import SettingsError
from petstore.client import (
    InvalidPet,
    NoAnswer,
    PetStoreClient,
    PetStoreError,
    Tls,
    TlsFiles,
    TlsUnusable,
)

__all__ = ["KINDS", "RECONCILERS", "PetReconciler", "setup"]


@rbac(groups="petstore.example.com", resources="pets", verbs="get;list;watch;patch")
@rbac(groups="petstore.example.com", resources="pets/status", verbs="patch")
@rbac(groups="", resources="events", verbs="create;patch")
class PetReconciler:
    """Brings the store to what one Pet says, and the Pet's status to what the store answers.

    The first write for a Pet stores the finalizer and a note of what is about to be added, before the store
    hears of it; the last one the id in its status. What fails in between is found again by `Keeper`.
    """

    def __init__(
        self,
        client: Client,
        keeper: Keeper,
        claims: Claims,
        outlook: Outlook,
        reporter: Reporter,
    ) -> None:
        self.client = client
        self.keeper = keeper
        self.claims = claims
        self.outlook = outlook
        self.reporter = reporter
        self.told: defaultdict[tuple[str, type[PetStoreError]], Repeats] = defaultdict(Repeats)

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one Pet up to date."""
        pet = await self.client.find(Pet, request)
        begun = self.claims.begun(request)
        if pet is None or (begun is not None and begun.metadata.uid != pet.metadata.uid):
            later = await self.gone(request)
            if later is not None or pet is None:
                return later
        try:
            while True:
                try:
                    return await self.bring_up_to_date(pet)
                except PetChanged as changed:
                    pet = changed.pet
        except PetGone:
            return await self.gone(request)
        except NotFound as error:
            if not is_not_there(error, request):
                raise
            return await self.gone(request)

    async def bring_up_to_date(self, pet: Pet) -> Result | None:
        """Bring one Pet up to date. Raises PetGone; PetChanged when it is not the newest."""
        notes, key = Notes(self.client, pet), pet.key
        try:
            if pet.metadata.deletion_timestamp is None:
                await self.keep(notes)
            else:
                await self.remove(pet)
        except NoAnswer as error:
            return await self.try_again(notes.pet, error)
        except InvalidBirthday as error:
            message = f"spec.birthday: {error}"
            await self.reporter.impossible(pet, "InvalidBirthday", message, answered=False)
        except InvalidPet as error:
            # It names the field as it stands in the call: "pets[0].name: must not be blank".
            message = str(error).replace("pets[0].type", "spec.species").replace("pets[0].", "spec.")
            await self.reporter.impossible(notes.pet, "InvalidPet", message, answered=True)
        except PetStoreError as error:
            self.tell("the pet store failed", error)
            await self.reporter.failed(notes.pet, str(error))
            return Result(requeue_after=self.outlook.try_again_after(key))
        self.outlook.forget(key)
        return None

    async def keep(self, notes: Notes) -> None:
        """Make sure that the store has it."""
        pet = notes.pet
        content = wanted(pet)
        self.outlook.require()
        id_known = bool(self.claims.id_of(pet))
        fresh = not id_known and not was_begun(pet)
        await notes.begin(None if id_known else content)
        kept = await self.keeper.keep(notes, content, fresh=fresh)
        try:
            await self.reporter.kept(notes.pet, content, kept)
        except (Conflict, Invalid):
            if self.claims.begun(pet.key) is not None:
                await notes.confirm(again=True)  # another Pet may have its name now
            raise
        self.claims.settle(pet.key)  # the status has it

    async def remove(self, pet: Pet) -> None:
        """Make sure that the store does not have it, then let it go."""
        finalizers = pet.metadata.finalizers
        others = [name for name in finalizers if name not in OURS]
        if others == finalizers:
            self.claims.settle(pet.key)  # nothing was added for it, or all is done
            return
        self.outlook.require()
        try:
            content = wanted(pet)
        except InvalidBirthday:
            content = None
        removed = await self.keeper.remove(pet, content)
        pet.metadata.finalizers = others
        await self.client.patch(pet)
        self.claims.settle(pet.key)
        if removed:
            self.reporter.removed(pet)

    async def try_again(self, pet: Pet, error: NoAnswer) -> Result | None:
        """Say that the store does not answer, and come back: when it does, or after a while."""
        if not self.outlook.down:
            self.tell("no answer from the pet store", error)
            self.outlook.doubt()
        self.outlook.wait(pet.key)
        down = self.outlook.down
        await self.reporter.no_answer(pet)
        if down:
            return (
                None  # `Outlook` asks for it when that ends; thousands of timers would do nothing until then
            )
        return Result(requeue_after=self.outlook.try_again_after(pet.key))

    async def gone(self, request: Request) -> Result | None:
        """There is no such Pet any more, whatever the cache says: take back what was added, and forget it."""
        pet = self.claims.begun(request)
        if pet is not None:
            try:
                self.outlook.require()
                if await self.keeper.remove(pet, noted(pet)):
                    reconcile_log().info("took back the record of a Pet that is gone", uid=pet.metadata.uid)
            except PetStoreError as error:
                self.tell("cannot take back the record of a Pet that is gone", error)
                if isinstance(error, NoAnswer):
                    self.outlook.doubt()
                return Result(requeue_after=self.outlook.try_again_after(request))
        self.claims.settle(request)
        self.outlook.forget(request)
        return None

    def tell(self, event: str, error: PetStoreError) -> None:
        """A store that fails does so for every Pet: the log says it at once, and then less and less often."""
        if (times := self.told[event, type(error)].count()) is not None:
            log = reconcile_log()
            # That it does not answer is what `Outlook` warns of.
            write = log.info if isinstance(error, NoAnswer) else log.warning
            write(event, error=str(error), times=times)


def _lacks_finalizer(event: CacheEvent) -> bool:
    """Somebody took away what holds the Pet until its record is gone."""
    return FINALIZER not in event.meta.finalizers


def _tls(*files: str | None) -> Tls | None:
    """What the settings say. Raises SettingsError."""
    ca, cert, key = (Path(file) if file else None for file in files)
    try:
        return Tls.of_client(TlsFiles(ca_file=ca, cert_file=cert, key_file=key))
    except TlsUnusable as error:
        raise SettingsError(f"--petstore-tls-{error.file.replace('_', '-')}: {error}") from None


def setup(manager: Manager, options: ControllerOptions) -> None:
    """Wire the controller up, and the watch over the store beside it."""
    client = manager.client.named("pet")
    *files, server_name = (manager.settings[key] for key in PETSTORE_TLS)
    # One connection for the whole process; it is made with the first call.
    store = PetStoreClient(
        manager.settings[PETSTORE_ADDRESS],
        timeout=manager.settings[PETSTORE_TIMEOUT],
        handled=StoreMetrics(manager.metrics.registry).handled,
        writing=manager.leadership.held,
        tls=_tls(*files),
        server_name=server_name,
    )
    manager.keep(lambda: store)
    pets = CachedPets(manager.cache)
    channel = ChannelSource()
    claims = Claims(pets)
    outlook = Outlook(store, channel, rng=manager.rng)
    interval = manager.settings[PETSTORE_CHECK_INTERVAL]
    check = StoreCheck(store, pets, channel, outlook, interval=interval, rng=manager.rng)
    manager.add(Runnable("petstore-outlook", outlook.run, leader_only=True))
    manager.add(Runnable("petstore-check", check.run, leader_only=True))
    (
        ControllerBuilder(manager, Pet)
        .predicates(any_of(generation_changed, termination_started, _lacks_finalizer))
        .source(channel)
        .options(options)
        .complete(
            PetReconciler(
                client,
                Keeper(store, claims),
                claims,
                outlook,
                Reporter(client, manager.events, address=store.address),
            )
        )
    )


KINDS = (OldPet, Pet)
RECONCILERS = (PetReconciler,)
