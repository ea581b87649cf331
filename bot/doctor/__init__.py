"""`sdjax-bot doctor`: looks at everything that a start needs, changes nothing, and says what to do.

Each check has a time limit. A check that fails or hangs does not stop the others.
"""

from bot.doctor.doctor import examine as examine
