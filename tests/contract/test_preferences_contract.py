"""Saved options of persons, channels and servers, on every database."""

from __future__ import annotations

from bot.store import Store
from bot.store.people.preferences import Owner, Scope

ME = Owner(scope=Scope.ME, id=2**62)
CHANNEL = Owner(scope=Scope.CHANNEL, id=5, guild_id=7)
SERVER = Owner(scope=Scope.SERVER, id=7, guild_id=7)


async def test_each_owner_has_its_own_options_returned_in_the_order_of_the_call(store: Store) -> None:
    await store.preferences.put(ME, {"steps": 30, "negative_prompt": "안개"})
    await store.preferences.put(SERVER, {"size": "512x512"})
    found = await store.preferences.of(SERVER, CHANNEL, ME)
    assert found == [{"size": "512x512"}, {}, {"steps": 30, "negative_prompt": "안개"}]


async def test_options_are_replaced_as_a_whole_and_deleted_by_an_empty_set(store: Store) -> None:
    await store.preferences.put(ME, {"steps": 30, "variants": 4})
    await store.preferences.put(ME, {"steps": 9})
    assert await store.preferences.of(ME) == [{"steps": 9}]
    await store.preferences.put(ME, {})
    await store.preferences.put(ME, {})
    assert await store.preferences.of(ME) == [{}]


async def test_the_preferences_of_a_person_and_a_server_are_erased_separately(store: Store) -> None:
    for owner in (ME, CHANNEL, SERVER):
        await store.preferences.put(owner, {"steps": 9})
    await store.erasure.erase_preferences(user_id=ME.id)
    assert await store.preferences.of(ME, CHANNEL, SERVER) == [{}, {"steps": 9}, {"steps": 9}]
    await store.erasure.erase_preferences(guild_id=7)
    assert await store.preferences.of(CHANNEL, SERVER) == [{}, {}]


async def test_the_nearest_owner_with_an_option_decides_it(store: Store) -> None:
    assert await store.preferences.nearest("steps", ME, CHANNEL, SERVER) is None
    await store.preferences.put(SERVER, {"steps": 9, "variants": 2})
    await store.preferences.put(CHANNEL, {"steps": 0})
    assert await store.preferences.nearest("steps", ME, CHANNEL, SERVER) == 0
    assert await store.preferences.nearest("variants", ME, CHANNEL, SERVER) == 2
    assert await store.preferences.nearest("steps") is None


async def test_a_reset_ends_the_options_of_one_owner_only(store: Store) -> None:
    namesake = Owner(scope=Scope.ME, id=SERVER.id)
    for owner in (SERVER, namesake, ME):
        await store.preferences.put(owner, {"steps": 9})
    await store.preferences.put(namesake, {})
    assert await store.preferences.of(SERVER, namesake, ME) == [{"steps": 9}, {}, {"steps": 9}]


async def test_replaced_options_still_go_with_their_server(store: Store) -> None:
    await store.preferences.put(CHANNEL, {"steps": 9})
    await store.preferences.put(CHANNEL, {"steps": 8})
    await store.erasure.erase_preferences(guild_id=7)
    assert await store.preferences.of(CHANNEL) == [{}]
