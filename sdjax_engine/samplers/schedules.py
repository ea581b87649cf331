"""A sampler's settings from a checkpoint's `scheduler_config.json`, and noise schedules, in float64.

A request may choose another sampler than the checkpoint names. The reference's `from_config` then takes the
keys that the chosen class knows, uses that class's defaults for missing keys and ignores all other keys.
`SchedulerConfig.read` does the same. Unsupported values are reported in one error.

Only β, 1 - β, ᾱ and σ are rounded to float32, as in the reference and in the training of its networks.
The rounding of 1 - β keeps four digits of the first β. This moves the smallest σ by 1e-5, and sometimes a
rounded timestep by one.

Sources: Ho et al. 2020 (DDPM, arXiv 2006.11239); Nichol and Dhariwal 2021 (cosine, 2102.09672); Karras
et al. 2022 (2206.00364); Lin et al. 2023 (spacings and zero terminal SNR, 2305.08891); Salimans and Ho
2022 (v-prediction, 2202.00512). Where papers leave a choice, the schedulers of `diffusers` decide it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy  # type: ignore[import-untyped]  # the whole: it loads `special` when that is first asked for
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.samplers.tables import Table

Beta = Annotated[float, Field(gt=0, lt=1)]
Off = Literal[False]


class SchedulerConfig(BaseModel):
    """The keys that every sampler reads, with the reference's names and defaults.

    A subclass is one sampler: it adds keys, narrows the supported values and computes the
    table. Instances are frozen and hashable.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    reference: ClassVar[str]
    """The class in `diffusers` that this sampler reproduces."""
    named: ClassVar[frozenset[str]] = frozenset()
    """Keys that the sampler itself decides; the checkpoint's values are ignored."""
    predicts_flow: ClassVar[bool] = False
    """Whether the sampler is for networks that predict a rectified flow, eps - x_0."""

    num_train_timesteps: int = Field(1000, ge=1, le=100_000)
    beta_start: Beta = 0.0001
    beta_end: Beta = 0.02
    beta_schedule: Literal["linear", "scaled_linear", "squaredcos_cap_v2"] = "linear"
    trained_betas: tuple[Beta, ...] | None = Field(None, min_length=1)
    timestep_spacing: Literal["leading", "linspace", "trailing"] = "linspace"
    steps_offset: int = Field(0, ge=0)

    @classmethod
    def read(cls, scheduler_config: Mapping[str, Any]) -> Self:
        """Return this sampler's settings; `UnreadableCheckpoint` names the bad keys of `scheduler_config`.

        Keys listed under `_use_default_values` and keys that are null count as missing.
        """
        if predicts_flow(scheduler_config) is not cls.predicts_flow:
            predicts = "a flow, eps - x_0" if predicts_flow(scheduler_config) else "no flow"
            raise UnreadableCheckpoint(
                f"scheduler_config.json for {cls.reference}: by its _class_name or prediction_type the "
                f"checkpoint predicts {predicts}"
            )
        unchosen = cls.named | set(unchosen_keys(scheduler_config))
        chosen = {
            key: value for key, value in scheduler_config.items() if key not in unchosen and value is not None
        }
        try:
            return cls.model_validate(chosen)
        except ValidationError as error:
            faults = "; ".join(_fault(entry["loc"], entry["input"], entry["msg"]) for entry in error.errors())
            raise UnreadableCheckpoint(f"scheduler_config.json for {cls.reference}: {faults}") from None

    def plan(self, num_inference_steps: int, *, strength: float | None = None, pixels: int = 0) -> Table:
        """Return the table of this sampler for `num_inference_steps` steps and pictures of so many `pixels`.

        With a `strength` from 0 to 1 the table starts from a picture: this share of the steps is left, as in
        the reference's image-to-image pipelines, and at least one step, where the reference raises an error.
        Raises `InvalidRequest` for more steps than trained timesteps, and `UnreadableCheckpoint` for a
        schedule that gives no finite coefficients.
        """
        if not 1 <= num_inference_steps <= self.num_train_timesteps:
            raise InvalidRequest("steps", value=num_inference_steps, limit=self.num_train_timesteps)
        if strength is None:
            return _table(self, num_inference_steps, 0, pixels)
        if not 0 <= strength <= 1:
            raise InvalidRequest("strength", value=strength)
        left = max(1, self.steps_left(num_inference_steps, strength))
        return _table(self, num_inference_steps, num_inference_steps - left, pixels).on_picture()

    def sized(self, pixels: int, num_inference_steps: int) -> Self:
        """Return the settings for so many pixels and steps: these, unless its shift depends on them."""
        del pixels, num_inference_steps
        return self

    def steps_left(self, num_inference_steps: int, strength: float) -> int:
        """Return how many of the steps a start picture of this strength leaves."""
        return int(num_inference_steps * strength)

    @abstractmethod
    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table of this sampler for `num_inference_steps` steps, without the first `begin`.

        The timesteps are those of the whole table, but a multistep method starts with an empty history.
        """


def _table(config: SchedulerConfig, num_inference_steps: int, begin: int, pixels: int) -> Table:
    # The table raises for values that are not finite.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return config.sized(pixels, num_inference_steps).table(num_inference_steps, begin=begin)


def unchosen_keys(scheduler_config: Mapping[str, Any]) -> list[str]:
    """Return the keys listed under `_use_default_values`; values that are no text are ignored."""
    listed = scheduler_config.get("_use_default_values")
    return [key for key in listed if isinstance(key, str)] if isinstance(listed, list | tuple) else []


def predicts_flow(scheduler_config: Mapping[str, Any]) -> bool:
    """Whether a checkpoint's network predicts a rectified flow, according to its scheduler."""
    return (
        str(scheduler_config.get("_class_name")).startswith("FlowMatch")
        or scheduler_config.get("prediction_type") == "flow_prediction"
    )


def _fault(location: tuple[int | str, ...], value: object, message: str) -> str:
    return f"{'.'.join(map(str, location))} is {str(value)[:40]!r}: {message}"


Array = npt.NDArray[np.float64]

TINY_ALPHA = 2.0**-24
"""The reference's substitute for a last ᾱ of zero in divisions."""


def betas(config: SchedulerConfig) -> Array:
    """Return β_t of the forward process, `(num_train_timesteps,)`, before rounding."""
    if config.trained_betas is not None:
        if len(config.trained_betas) != config.num_train_timesteps:
            raise UnreadableCheckpoint(
                f"scheduler_config.json: trained_betas has {len(config.trained_betas)} values for "
                f"num_train_timesteps = {config.num_train_timesteps}"
            )
        return np.array(config.trained_betas)
    if config.beta_schedule == "linear":
        return _evenly(config.beta_start, config.beta_end, config.num_train_timesteps)
    if config.beta_schedule == "scaled_linear":
        return np.square(_evenly(config.beta_start**0.5, config.beta_end**0.5, config.num_train_timesteps))
    time = _evenly(0, 1, config.num_train_timesteps + 1)
    alpha_bar: Array = np.cos((time + 0.008) / 1.008 * np.pi / 2) ** 2
    falls: Array = np.minimum(1 - alpha_bar[1:] / alpha_bar[:-1], 0.999)
    return falls


def _evenly(first: float, last: float, count: int) -> Array:
    return np.linspace(first, last, count, dtype=np.float64)


def alphas_cumprod(config: SchedulerConfig, *, zero_terminal_snr: bool = False) -> Array:
    """Return ᾱ_t, `(num_train_timesteps,)`; with `zero_terminal_snr`, rescaled so that the last is 0."""
    alphas = _stored(1 - _stored(betas(config)))
    alpha_bar = _stored(alphas.cumprod(dtype=np.float64))
    if not zero_terminal_snr or len(alpha_bar) == 1:
        return alpha_bar
    root = _stored(np.sqrt(alpha_bar))
    first, last = root[0], root[-1]
    return _stored(((root - last) * first / (first - last)) ** 2)


def _stored(values: Array) -> Array:
    """Return `values` rounded to the precision of the reference, float32."""
    return values.astype(np.float32).astype(np.float64)


def training_sigmas(config: SchedulerConfig, *, zero_terminal_snr: bool = False) -> Array:
    """Return σ_t = √((1 - ᾱ_t)/ᾱ_t), `(num_train_timesteps,)`, rising and finite."""
    alpha_bar = alphas_cumprod(config, zero_terminal_snr=zero_terminal_snr)
    if zero_terminal_snr:
        alpha_bar[-1] = TINY_ALPHA
    return _stored(np.sqrt(_stored(_stored(1 - alpha_bar) / alpha_bar)))


def spaced_timesteps(config: SchedulerConfig, num_inference_steps: int, *, whole: bool) -> Array:
    """Return the timesteps from noise to picture, `(num_inference_steps,)`.

    `whole` rounds the spacing "linspace", whose timesteps are fractions; the timesteps of the other spacings
    are whole numbers. See table 2 of Lin et al.
    """
    last = config.num_train_timesteps
    if config.timestep_spacing == "linspace":
        timesteps = np.linspace(0, last - 1, num_inference_steps)[::-1]
        return within_training(config, timesteps.round() if whole else timesteps)
    if config.timestep_spacing == "leading":
        ratio = last // num_inference_steps
        return within_training(config, np.arange(num_inference_steps)[::-1] * ratio + config.steps_offset)
    return within_training(config, trailing_timesteps(config, num_inference_steps, last))


def trailing_timesteps(config: SchedulerConfig, num_inference_steps: int, last: int) -> Array:
    """Return timesteps from just below `last`, the end with the most noise, to the picture.

    It is an arange as in the reference: where a value falls on a half, its rounding error decides. For some
    numbers of steps (61, 103, 121, 122 of a thousand) this error adds a timestep of -1 at the end; it is
    left out here.
    """
    stride = config.num_train_timesteps / num_inference_steps
    timesteps: Array = np.arange(last, 0, -stride).round() - 1
    return timesteps[:num_inference_steps]


def within_training(config: SchedulerConfig, timesteps: npt.NDArray[np.number]) -> Array:
    """Return `timesteps` as float64; raises UnreadableCheckpoint if one is not a trained one."""
    if not len(timesteps) or timesteps.min() < 0 or timesteps.max() > config.num_train_timesteps - 1:
        raise UnreadableCheckpoint(
            f"scheduler_config.json: timestep_spacing = {config.timestep_spacing} with steps_offset = "
            f"{config.steps_offset} leaves the {config.num_train_timesteps} trained timesteps"
        )
    return timesteps.astype(np.float64)


def karras_sigmas(sigma_max: float, sigma_min: float, num_inference_steps: int) -> Array:
    """Return falling σ spaced evenly in σ^(1/7), `(num_inference_steps,)`; equation 5 of Karras et al."""
    rho = 7.0
    sigmas = _evenly(sigma_max ** (1 / rho), sigma_min ** (1 / rho), num_inference_steps) ** rho
    sigmas[-1], sigmas[0] = sigma_min, sigma_max  # exact ends; a single step has sigma_max
    return sigmas


def exponential_sigmas(sigma_max: float, sigma_min: float, num_inference_steps: int) -> Array:
    """Return falling σ spaced evenly in log σ, `(num_inference_steps,)`."""
    return np.exp(_evenly(np.log(sigma_max), np.log(sigma_min), num_inference_steps))


def beta_sigmas(sigma_max: float, sigma_min: float, num_inference_steps: int) -> Array:
    """Return σ falling by the quantiles of Beta(0.6, 0.6), `(num_inference_steps,)`.

    Lee et al. 2024, "Beta Sampling is All You Need" (arXiv 2407.12173).
    """
    quantiles: Array = scipy.special.betaincinv(0.6, 0.6, 1 - _evenly(0, 1, num_inference_steps))
    return sigma_min + quantiles * (sigma_max - sigma_min)


def sigma_to_timestep(sigmas: Array, trained: Array) -> Array:
    """Return fractional timesteps of `sigmas`, interpolated in log σ between those of `trained`.

    The logarithms of `trained` are rounded as in the reference: the last digit decides whether a σ at the
    end is inside.
    """
    logs = np.log(trained.astype(np.float32)).astype(np.float64)
    return np.interp(np.log(sigmas), logs, np.arange(len(trained), dtype=np.float64))


def alpha_sigma(ratio: float) -> tuple[float, float]:
    """Return (α, σ) with σ/α = `ratio` and α² + σ² = 1."""
    alpha = (ratio**2 + 1) ** -0.5
    return alpha, ratio * alpha


def x_0_weights(prediction_type: str, *, alpha: float, sigma: float) -> tuple[float, float]:
    """Return (p, q) with x_0 = p·x + q·m, for x = alpha·x_0 + sigma·eps and alpha² + sigma² = 1."""
    if prediction_type == "v_prediction":
        return alpha, -sigma
    if prediction_type == "sample":
        return 0.0, 1.0
    if alpha == 0:
        raise UnreadableCheckpoint(
            "scheduler_config.json: prediction_type = epsilon cannot work where nothing but noise is left, "
            "as rescale_betas_zero_snr = true or extreme betas have it"
        )
    return 1 / alpha, -sigma / alpha


def eps_weights(prediction_type: str, *, alpha: float, sigma: float) -> tuple[float, float]:
    """Return (p, q) with eps = p·x + q·m, for x = alpha·x_0 + sigma·eps and alpha² + sigma² = 1."""
    if prediction_type == "v_prediction":
        return sigma, alpha
    if prediction_type == "sample":
        return 1 / sigma, -alpha / sigma
    return 0.0, 1.0


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
