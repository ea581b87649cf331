"""The composition roots: the only place where the parts of the bot meet, one module for each role.

              front                               worker
Discord ─ client and its commands ─┐          ┌─ worker ─ engine
          progress ─ sender ───────┼─ queue ──┘
          outbox ────┘             │    store, artifacts, a name
                                   │
`both` is the two in one process. No role imports the other: a front loads no JAX, a worker no discord.py.
"""
