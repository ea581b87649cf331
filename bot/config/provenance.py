"""[provenance]: how pictures say that they are AI-generated."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from bot.config.mistakes import InvalidValue
from bot.config.section import GivenPath, PathText, Section, check_http

Algorithm = Literal["es256", "es384", "es512", "ps256", "ps384", "ps512", "ed25519"]
"""The signing algorithms of C2PA."""
Stamp = Literal["eu", "cn"]
"""Whose label is drawn on pictures: the EU's or China's."""


class AigcConfig(Section):
    """The field `AIGC` of GB 45438-2025, which files carry if a `producer` is named.

    `label` is 1 for certainly generated, 2 for perhaps, 3 for suspected. No `propagator` means the producer.
    """

    producer: Annotated[str, Field(max_length=200)] = ""
    label: Literal["1", "2", "3"] = "1"
    propagator: Annotated[str, Field(max_length=200)] = ""

    def fields(self, content_id: str) -> dict[str, str]:
        """Return the field's values for a file."""
        return {
            "Label": self.label,
            "ContentProducer": self.producer,
            "ProduceID": content_id,
            "ReservedCode1": "",
            "ContentPropagator": self.propagator or self.producer,
            "PropagateID": content_id,
            "ReservedCode2": "",
        }


class ProvenanceConfig(Section):
    """Whether pictures carry a signed C2PA manifest, with which certificate, and the label of messages.

    Without a `certificate`, a self-made one is kept in `folder`. If a signature is `required`, a picture that
    cannot be signed is held. `time_authority` is the address of an RFC 3161 time-stamp authority.
    `watermark` is the folder or hub id of TrustMark's weights; empty: pictures get no watermark.
    """

    sign: bool = True
    certificate: PathText = ""
    private_key: Annotated[PathText, Field(validate_default=True)] = ""
    algorithm: Annotated[Algorithm, Field(validate_default=True)] = "es256"
    folder: GivenPath = "var/provenance"
    required: bool = False
    time_authority: Annotated[str, AfterValidator(check_http)] = ""
    watermark: PathText = ""
    label: bool = True
    stamp: Stamp | Literal[""] = ""
    aigc: AigcConfig = AigcConfig()

    @property
    def told(self) -> bool:
        """Whether messages and alternative texts say that AI made a picture: a drawn label is told always."""
        return self.label or bool(self.stamp)

    @model_validator(mode="after")
    def _signs_what_must_be_signed(self) -> Self:
        if self.required and not self.sign:
            raise InvalidValue("a signature can be required only where pictures are signed", key="required")
        return self

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
