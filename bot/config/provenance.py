"""[provenance]: how pictures say that they are AI-generated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from bot.config.mistakes import InvalidValue
from bot.config.paths import GivenPath, PathText
from bot.config.section import Section

Algorithm = Literal["es256", "es384", "es512", "ps256", "ps384", "ps512", "ed25519"]
"""The signing algorithms of C2PA."""


class ProvenanceConfig(Section):
    """Whether pictures carry a signed C2PA manifest, with which certificate, and the label of messages.

    Without a `certificate`, a self-made one is kept in `folder`.
    """

    sign: bool = True
    certificate: PathText = ""
    private_key: Annotated[PathText, Field(validate_default=True)] = ""
    algorithm: Annotated[Algorithm, Field(validate_default=True)] = "es256"
    folder: GivenPath = "var/provenance"
    label: bool = True

    @field_validator("private_key")
    @classmethod
    def _belongs_to_a_certificate(cls, value: str, info: ValidationInfo) -> str:
        certificate = info.data.get("certificate", "")
        if certificate and not value:
            raise InvalidValue("the certificate needs its private key: name the key's file here")
        if value and not certificate and "certificate" in info.data:
            raise InvalidValue("the private key needs its certificate: name that file in certificate")
        return value

    @field_validator("algorithm")
    @classmethod
    def _belongs_to_the_key(cls, value: Algorithm, info: ValidationInfo) -> Algorithm:
        if value != "es256" and not info.data.get("certificate", "?"):
            raise InvalidValue("a self-made certificate signs with es256: name a certificate for another")
        return value
