"""The trouble of an image that the engine retried, as the next heartbeat reports it."""

from __future__ import annotations

from recipes import RECIPE

from bot.domain.jobs import Claim
from bot.worker.held_image import HeldImage
from sdjax_engine.request import Progress, Trouble

CLAIM = Claim(
    image_id=1, job_id="abc", request=RECIPE.request(0), steps=20, fencing_token=1, expires_at=1_000_000.0
)


def told(*progress: tuple[int, Trouble | None]) -> list[tuple[int, Trouble | None]]:
    """Return the step and the trouble after each progress report of the engine."""
    image = HeldImage(claim=CLAIM)
    seen = []
    for step, trouble in progress:
        image.on_progress(Progress(step=step, steps=20, trouble=trouble))
        seen.append((image.step, image.trouble))
    return seen


def test_a_trouble_is_reported_until_the_image_is_further_than_before() -> None:
    short, failed = Trouble.OUT_OF_MEMORY, Trouble.FAILED
    assert told((4, None), (8, None), (0, short), (4, None), (8, None), (12, None)) == [
        (4, None),
        (8, None),
        (0, short),
        (4, short),
        (8, short),
        (12, None),
    ]
    assert told((8, None), (0, short), (4, None), (0, failed), (8, None), (9, None))[3:] == [
        (0, failed),
        (8, failed),
        (9, None),
    ]


def test_before_the_first_step_any_step_ends_the_trouble() -> None:
    assert told((0, Trouble.OUT_OF_MEMORY), (1, None))[-1] == (1, None)


def test_the_stages_of_an_image_follow_what_the_engine_tells() -> None:
    image = HeldImage(claim=CLAIM)
    image.stages.enter("admit")
    for progress in (
        Progress(step=0, steps=8),
        Progress(step=4, steps=8),
        Progress(step=0, steps=8, trouble=Trouble.FAILED),
        Progress(step=0, steps=8),
        Progress(step=5, steps=8, in_second_pass=True),
        Progress(step=8, steps=8, in_second_pass=True),
    ):
        image.on_progress(progress)
    image.stages.end()
    assert [stage.name for stage in image.stages.all] == [
        *("admit", "denoise", "admit", "denoise", "second_pass", "decode")
    ]


def test_the_pace_of_an_image_is_that_after_its_first_run_and_begins_again_after_a_trouble() -> None:
    times = iter([3.0, 4.0, 100.0, 100.5])
    image = HeldImage(claim=CLAIM, clock=lambda: next(times))
    image.on_progress(Progress(step=0, steps=20))
    image.on_progress(Progress(step=5, steps=20))
    assert image.pace is None
    image.on_progress(Progress(step=15, steps=20))
    assert image.pace == 0.1
    image.on_progress(Progress(step=0, steps=20, trouble=Trouble.FAILED))
    image.on_progress(Progress(step=10, steps=20))
    assert image.pace is None
    image.on_progress(Progress(step=20, steps=20))
    assert image.pace == 0.05
