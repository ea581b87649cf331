"""Opens the signing of a configuration."""

from __future__ import annotations

import logging
from pathlib import Path

from bot.config import ProvenanceConfig
from bot.config.mistakes import quoted
from bot.domain.errors import ConfigurationError
from bot.provenance.certificates import Credentials, kept_credentials, read_credentials, self_made
from bot.provenance.manifests import ManifestSigner, Unusable
from bot.provenance.signing import ReadStart, Signing
from bot.provenance.watermark import Watermark
from bot.telemetry.metrics import ProvenanceMetrics

log = logging.getLogger(__name__)


def open_signing(
    config: ProvenanceConfig,
    *,
    metrics: ProvenanceMetrics | None = None,
    starts: ReadStart | None = None,
) -> Signing:
    """Return the signing of pictures, which signs nothing where it is switched off.

    Reads files, and starts the watermark's process: call it in a thread. Raises ConfigurationError for a
    certificate or for weights that cannot be used.
    """
    signer = _opened(config) if config.sign else None
    watermark = Watermark(config.watermark) if config.watermark else None
    if watermark is not None:
        watermark.open()
    return Signing(
        signer,
        required=config.required,
        stamp=config.stamp,
        aigc=config.aigc,
        watermark=watermark,
        metrics=metrics,
        starts=starts,
    )


def _opened(config: ProvenanceConfig) -> ManifestSigner:
    if config.certificate:
        return _signer(config)
    return ManifestSigner(_self_made(Path(config.folder)), time_authority=config.time_authority)


def check_certificate(config: ProvenanceConfig) -> None:
    """Raise ConfigurationError where the operator's certificate cannot be used; writes nothing."""
    if config.sign and config.certificate:
        _signer(config)


def _signer(config: ProvenanceConfig) -> ManifestSigner:
    credentials = read_credentials(config.certificate, config.private_key, config.algorithm)
    try:
        return ManifestSigner(credentials, time_authority=config.time_authority)
    except Unusable as error:
        raise ConfigurationError(
            f"provenance.certificate: {quoted(config.certificate)} cannot sign pictures: {error}."
        ) from error


def _self_made(folder: Path) -> Credentials:
    try:
        return kept_credentials(folder)
    except OSError as error:
        log.warning(
            "the self-made certificate cannot be kept in %s (%s), so each start makes another",
            folder,
            error.strerror,
        )
        return self_made()
