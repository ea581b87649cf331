"""Certificates: a persistent self-made one, and every mistake in an operator's."""

from __future__ import annotations

import stat
from datetime import timedelta
from pathlib import Path

import pytest
from certificate_files import Key, write_certificate
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from manifests import png, read_manifest

from bot.config import Config, ProvenanceConfig
from bot.domain.errors import ConfigurationError
from bot.provenance.certificates import SELF_MADE_FILE, kept_credentials, utc_now
from bot.provenance.manifests import PURPOSES
from bot.provenance.opening import check_certificate, open_signing


def test_a_self_made_certificate_names_itself_so_and_its_key_is_private(tmp_path: Path) -> None:
    made = kept_credentials(tmp_path / "new" / "folder")
    leaf, authority = x509.load_pem_x509_certificates(made.chain)
    assert "self-made" in leaf.subject.rfc4514_string()
    assert "no authority has checked it" in leaf.subject.rfc4514_string()
    leaf.verify_directly_issued_by(authority)
    file = tmp_path / "new" / "folder" / SELF_MADE_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "PRIVATE KEY" not in repr(made)


def test_a_self_made_certificate_is_kept_until_shortly_before_its_end(tmp_path: Path) -> None:
    made = kept_credentials(tmp_path)
    assert kept_credentials(tmp_path) == made
    later = kept_credentials(tmp_path, now=lambda: utc_now() + timedelta(days=3640))
    assert later.chain != made.chain
    assert [file.name for file in tmp_path.iterdir()] == [SELF_MADE_FILE]


def test_a_damaged_self_made_certificate_is_replaced(tmp_path: Path) -> None:
    made = kept_credentials(tmp_path)
    (tmp_path / SELF_MADE_FILE).write_bytes(made.chain[:300])
    assert kept_credentials(tmp_path).chain != made.chain


def test_a_read_only_folder_prevents_keeping_the_certificate_but_not_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    signing = open_signing(ProvenanceConfig(folder=str(tmp_path / "file" / "folder")))
    assert read_manifest(signing.signed(png())).state == "Valid"
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("the self-made certificate cannot be kept in ")


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (ec.generate_private_key(ec.SECP256R1()), "es256"),
        (ec.generate_private_key(ec.SECP384R1()), "es384"),
        (ec.generate_private_key(ec.SECP521R1()), "es512"),
        (rsa.generate_private_key(65537, 2048), "ps256"),
        (ed25519.Ed25519PrivateKey.generate(), "ed25519"),
    ],
    ids=lambda value: value if isinstance(value, str) else "key",
)
def test_an_operators_certificate_signs(key: Key, algorithm: str, tmp_path: Path) -> None:
    certificate, private_key = write_certificate(tmp_path, key=key)
    config = ProvenanceConfig.model_validate(
        {"certificate": certificate, "private_key": private_key, "algorithm": algorithm}
    )
    found = read_manifest(open_signing(config).signed(png()))
    assert found.state == "Valid"
    assert found.manifest["signature_info"]["common_name"] == "Gallery"
    assert found.manifest["signature_info"]["alg"].lower() == algorithm


def mistakes_with(certificate: str, private_key: str, algorithm: str = "es256") -> list[str]:
    config = ProvenanceConfig.model_validate(
        {"certificate": certificate, "private_key": private_key, "algorithm": algorithm}
    )
    with pytest.raises(ConfigurationError) as caught:
        check_certificate(config)
    assert "PRIVATE KEY" not in str(caught.value)
    return str(caught.value).splitlines()


def test_files_that_cannot_be_read_or_are_something_else_are_one_sentence_each(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    gone = str(tmp_path / "gone.pem")
    reason = "cannot be read: No such file or directory."
    assert mistakes_with(gone, key) == [f"provenance.certificate: “{gone}” {reason}"]
    assert mistakes_with(certificate, gone) == [f"provenance.private_key: “{gone}” {reason}"]
    (tmp_path / "gone.pem").write_text("something else")
    assert mistakes_with(gone, gone) == [
        f"provenance.certificate: “{gone}” is not a PEM file of certificates.",
        f"provenance.private_key: “{gone}” is not a PEM file of a private key.",
    ]


def test_a_key_that_does_not_fit_is_named(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    assert mistakes_with(certificate, key, "es384") == [
        "provenance.algorithm: the private key signs with es256."
    ]
    (tmp_path / "other").mkdir()
    _, other = write_certificate(tmp_path / "other")
    assert mistakes_with(certificate, other) == [
        f"provenance.private_key: “{other}” is not the key of the certificate."
    ]
    _, locked = write_certificate(tmp_path / "other", password=b"secret")
    assert mistakes_with(certificate, locked) == [
        f"provenance.private_key: the key in “{locked}” is encrypted, and the bot has no password."
    ]


@pytest.mark.parametrize("purpose", PURPOSES)
def test_every_purpose_of_c2pas_trust_list_is_taken(purpose: str, tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path, purpose=x509.ObjectIdentifier(purpose))
    check_certificate(ProvenanceConfig(certificate=certificate, private_key=key))


def test_a_certificate_outside_its_time_or_for_another_purpose_is_refused(tmp_path: Path) -> None:
    ended = mistakes_with(*write_certificate(tmp_path, begins_in_days=-60))
    assert len(ended) == 1
    assert " ended on " in ended[0]
    early = mistakes_with(*write_certificate(tmp_path, begins_in_days=5))
    assert len(early) == 1
    assert " begins on " in early[0]
    purpose = mistakes_with(*write_certificate(tmp_path, purpose=ExtendedKeyUsageOID.SERVER_AUTH))
    assert len(purpose) == 1
    assert "cannot sign pictures: " in purpose[0]


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        (
            {"certificate": "a.pem"},
            "provenance.private_key: the certificate needs its private key: name the key's file here.",
        ),
        (
            {"private_key": "a.pem"},
            "provenance.private_key: the private key needs its certificate: name that file in certificate.",
        ),
        (
            {"algorithm": "ps256"},
            "provenance.algorithm: a self-made certificate signs with es256: name a certificate for another.",
        ),
    ],
)
def test_incomplete_settings_raise_one_sentence_each(section: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Config.parse({"provenance": section})
    assert str(caught.value).splitlines()[1:] == [sentence]
