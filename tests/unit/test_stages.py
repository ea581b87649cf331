"""The stages of a piece of work and their durations."""

from __future__ import annotations

from bot.telemetry.tracing import Stage, Stages


class Clocks:
    """A wall clock and a steady clock, of which the first may jump."""

    def __init__(self) -> None:
        self.wall, self.steady = 1000.0, 5.0

    def stages(self) -> Stages:
        return Stages(lambda: self.wall, lambda: self.steady)


def test_each_stage_lasts_until_the_next_and_a_repeated_one_is_added_up() -> None:
    clocks = Clocks()
    stages = clocks.stages()
    for name, seconds in (("denoise", 2.0), ("admit", 0.25), ("denoise", 1.0)):
        stages.enter(name)
        clocks.steady += seconds
    stages.end()
    assert stages.durations == {"denoise": 3.0, "admit": 0.25, "total": 3.25}
    assert stages.all[1] == Stage(name="admit", began=1002.0, ended=1002.25)


def test_entering_the_stage_that_runs_changes_nothing() -> None:
    clocks = Clocks()
    stages = clocks.stages()
    stages.enter("denoise")
    clocks.steady += 1.0
    stages.enter("denoise")
    stages.end()
    assert [stage.name for stage in stages.all] == ["denoise"]


def test_a_jump_of_the_system_clock_changes_no_duration() -> None:
    clocks = Clocks()
    stages = clocks.stages()
    stages.enter("denoise")
    clocks.steady += 1.0
    clocks.wall -= 3600.0
    stages.end()
    assert stages.durations == {"denoise": 1.0, "total": 1.0}


def test_work_without_stages_took_no_time() -> None:
    assert Clocks().stages().durations == {"total": 0.0}
