"""Enqueues, claims and completes without end, and prints the results of its verbs, until it is killed.

Arguments: the database's URL and the first interaction id to use.
"""

import asyncio
import sys
from itertools import count

from recipes import RECIPE, origin, recipe
from stores import TTL

from bot.store import Store


def say(*words: object) -> None:
    print(*words, flush=True)


async def main(url: str, first: int) -> None:
    store = await Store.open(url)
    await store.leases.recover("worker")
    for number in count(first):
        asked = recipe(variants=1 + number % 4)
        say("accepted", (await store.jobs.enqueue(asked, origin(number, user_id=number % 5))).id)
        for claim in await store.leases.claim("worker", limit={RECIPE.lane: 3}, ttl=TTL):
            say("claimed", claim.image_id, claim.fencing_token)
            artifact = f"{claim.image_id}-{claim.fencing_token}"
            await store.leases.complete(claim, artifact=artifact, seconds=1.0)
            say("completed", claim.job_id, claim.image_id, artifact)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
