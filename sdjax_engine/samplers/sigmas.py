"""How samplers that step in σ choose σ: evenly in time, or respaced between the same ends."""

from __future__ import annotations

import numpy as np

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.samplers.config import SchedulerConfig
from sdjax_engine.samplers.schedules import (
    Array,
    beta_sigmas,
    exponential_sigmas,
    karras_sigmas,
    sigma_to_timestep,
    spaced_timesteps,
    trailing_timesteps,
    within_training,
)


class SigmaConfig(SchedulerConfig):
    """The keys of a scheduler whose σ can have another spacing than its timesteps."""

    use_karras_sigmas: bool = False
    use_exponential_sigmas: bool = False
    use_beta_sigmas: bool = False

    @property
    def respaces(self) -> bool:
        """Whether σ have another spacing than the timesteps."""
        return self.use_karras_sigmas or self.use_exponential_sigmas or self.use_beta_sigmas

    def respaced(self, sigma_max: float, sigma_min: float, num_inference_steps: int) -> Array | None:
        """Return falling σ between these ends, `(num_inference_steps,)`, or None if they are not respaced."""
        ways = {
            "use_karras_sigmas": karras_sigmas,
            "use_exponential_sigmas": exponential_sigmas,
            "use_beta_sigmas": beta_sigmas,
        }
        chosen = [key for key in ways if getattr(self, key)]
        if len(chosen) > 1:
            raise UnreadableCheckpoint(f"scheduler_config.json: only one of {', '.join(chosen)} can be true")
        return ways[chosen[0]](sigma_max, sigma_min, num_inference_steps) if chosen else None


def exploding_ladder(
    config: SigmaConfig,
    trained: Array,
    num_inference_steps: int,
    *,
    sigma_max: float | None = None,
    sigma_min: float | None = None,
) -> tuple[Array, Array]:
    """Return timesteps, fractions included, and their σ, each `(n,)`, for x = x_0 + σ·eps.

    `sigma_max` and `sigma_min` are the ends of respaced σ; None means the σ of the timesteps.
    """
    timesteps, sigmas = spaced_sigmas(config, trained, num_inference_steps)
    top = sigmas[0] if sigma_max is None else sigma_max
    bottom = sigmas[-1] if sigma_min is None else sigma_min
    respaced = config.respaced(top, bottom, len(sigmas))
    if respaced is None:
        return timesteps, sigmas
    return sigma_to_timestep(respaced, trained), respaced


def spaced_sigmas(config: SchedulerConfig, trained: Array, num_inference_steps: int) -> tuple[Array, Array]:
    """Return timesteps, fractions included, and the σ of `trained` at them, each `(n,)`."""
    timesteps = spaced_timesteps(config, num_inference_steps, whole=False)
    return timesteps, np.interp(timesteps, np.arange(len(trained)), trained)


def initial_sigma(config: SchedulerConfig, sigmas: Array) -> float:
    """Return the standard deviation of the first x; for "leading" it includes the picture's own deviation."""
    largest = float(sigmas.max())
    return float((largest**2 + 1) ** 0.5) if config.timestep_spacing == "leading" else largest


def multistep_timesteps(config: SchedulerConfig, num_inference_steps: int, last: int) -> Array:
    """Return whole timesteps below `last`, `(n,)`: n of n + 1 spaced ones; for "trailing", all of n."""
    if config.timestep_spacing == "linspace":
        timesteps = np.linspace(0, last - 1, num_inference_steps + 1).round()[:0:-1]
    elif config.timestep_spacing == "leading":
        ratio = last // (num_inference_steps + 1)
        timesteps = np.arange(num_inference_steps + 1.0)[:0:-1] * ratio + config.steps_offset
    else:
        timesteps = trailing_timesteps(config, num_inference_steps, last)
    return within_training(config, timesteps)
