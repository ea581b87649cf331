"""`sdjax-bot doctor`: looks at everything that a start needs, changes nothing, and says what to do.

Each check is bounded in time and stands alone: a check that fails or hangs stops no other.
"""

from bot.doctor.doctor import examine as examine
