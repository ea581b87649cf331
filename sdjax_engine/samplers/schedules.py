"""Noise schedules, spacings and prediction types, in float64.

Only β, 1 - β, ᾱ and σ are rounded to float32, as in the reference and in the training of its networks.
The rounding of 1 - β keeps four digits of the first β. This moves the smallest σ by 1e-5, and sometimes a
rounded timestep by one.

Sources: Ho et al. 2020 (DDPM, arXiv 2006.11239); Nichol and Dhariwal 2021 (cosine, 2102.09672); Karras
et al. 2022 (2206.00364); Lin et al. 2023 (spacings and zero terminal SNR, 2305.08891); Salimans and Ho
2022 (v-prediction, 2202.00512). Where papers leave a choice, the schedulers of `diffusers` decide it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy  # type: ignore[import-untyped]  # the whole: it loads `special` when that is first asked for

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.samplers.config import SchedulerConfig

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
