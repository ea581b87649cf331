"""Logins and tokens are removed from any text, however long it is."""

import time

import pytest

from bot.telemetry.redaction import redact


def test_login_with_signs_that_end_a_host_is_removed() -> None:
    told = redact("no answer from postgresql://bot:p/a?s#s@db/queue, and 'http://x:y@z' neither")
    assert told == "no answer from postgresql://…@db/queue, and 'http://…@z' neither"


@pytest.mark.parametrize("unit", ["://a:", "://:", "a://", "@://::", "://a:b@ "])
def test_a_text_of_twice_the_length_takes_about_twice_the_time(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        began = time.thread_time()
        redact(text)
        return time.thread_time() - began

    short, long = (min(seconds(length) for _ in range(3)) for length in (20_000, 80_000))
    assert long < 10 * max(short, 0.001)  # it would be 16 times if each start were searched to the end
