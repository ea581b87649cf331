"""[queue] and [retention]: the shared queue, and how long it keeps jobs and pictures."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from bot.config.mistakes import InvalidValue
from bot.config.section import PlaceText, Section, Snowflake, check_database, repeated

LEAST_AUDIT_DAYS = 31  # a day more than triggers of the database refuse to delete


class RoleConfig(Section):
    """What people with a role have: their weight in the fair order, and how many prompts at once.

    Without `max_permutations` the limit of all people holds.
    """

    role: Snowflake
    weight: Annotated[float, Field(gt=0, le=100)] = 1.0
    max_permutations: Annotated[int, Field(ge=1, le=100)] | None = None


def _check_roles(values: tuple[RoleConfig, ...]) -> tuple[RoleConfig, ...]:
    if mistakes := [f"the role {role} is named twice" for role in repeated(value.role for value in values)]:
        raise InvalidValue(*mistakes)
    return values


class QueueConfig(Section):
    """Where jobs and pictures are kept, how many images may wait, and the shares of the fair order."""

    database: Annotated[str, AfterValidator(check_database)] = "sqlite+aiosqlite:///var/sdjax.sqlite3"
    artifacts: PlaceText = "var/artifacts"
    lease_seconds: Annotated[float, Field(ge=5, le=3600)] = 60.0
    drain_seconds: Annotated[float, Field(ge=0, le=3600)] = 60.0
    max_waiting_per_user: Annotated[int, Field(ge=1)] = 60
    max_waiting: Annotated[int, Field(ge=1, validate_default=True)] = 2000
    server_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    kept_share: Annotated[float, Field(ge=0, le=0.9)] = 0.1
    full_share_images: Annotated[int, Field(ge=1)] = 40
    roles: Annotated[tuple[RoleConfig, ...], AfterValidator(_check_roles)] = ()

    @field_validator("max_waiting")
    @classmethod
    def _covers_one_person(cls, value: int, info: ValidationInfo) -> int:
        if info.data.get("max_waiting_per_user", 0) > value:
            raise InvalidValue(
                f"{value} is less than max_waiting_per_user = {info.data['max_waiting_per_user']}"
            )
        return value


class RetentionConfig(Section):
    """How long pictures, ended jobs and records are kept; 0 means for ever, or without a limit."""

    picture_days: Annotated[float, Field(ge=0, le=36500)] = 30.0
    pictures_gib: Annotated[float, Field(ge=0, le=1_000_000)] = 20.0
    job_days: Annotated[float, Field(ge=0, le=36500, validate_default=True)] = 365.0
    left_server_days: Annotated[float, Field(ge=0, le=36500)] = 30.0
    audit_days: Annotated[float, Field(ge=0, le=36500)] = 730.0
    usage_days: Annotated[float, Field(ge=0, le=36500)] = 400.0

    @field_validator("job_days")
    @classmethod
    def _covers_the_pictures(cls, value: float, info: ValidationInfo) -> float:
        pictures = info.data.get("picture_days", 0.0)
        if value and value < pictures:
            raise InvalidValue(
                f"{value:g} is less than picture_days = {pictures:g}: jobs outlive their pictures"
            )
        return value

    @field_validator("audit_days")
    @classmethod
    def _protects_the_log(cls, value: float) -> float:
        if 0 < value < LEAST_AUDIT_DAYS:
            raise InvalidValue(
                f"{value:g} is less than {LEAST_AUDIT_DAYS}: the database refuses to delete young rows"
            )
        return value
