"""The composition roots, one module for each role: only here are the packages of the bot put together.

              front                               worker
Discord ─ client and its commands ─┐          ┌─ worker ─ engine
          progress ─ sender ───────┼─ queue ──┘
          outbox ────┘             │    store, artifacts, a name
                                   │
`both` runs a front and a worker in one process. A front loads no JAX, a worker no discord.py.
"""
