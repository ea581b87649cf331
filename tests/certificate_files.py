"""Certificates as an operator may have them, as PEM files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
PEM = serialization.Encoding.PEM
EMAIL = ExtendedKeyUsageOID.EMAIL_PROTECTION
USES = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")


def write_certificate(
    folder: Path,
    *,
    key: Key | None = None,
    begins_in_days: int = -1,
    days: int = 30,
    purpose: x509.ObjectIdentifier = EMAIL,
    status_url: str = "",
    password: bytes = b"",
) -> tuple[str, str]:
    """Write `certificate.pem`, which includes the authority's, and `key.pem`; return both paths."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    authority_key = ec.generate_private_key(ec.SECP256R1())
    begin = datetime.now(UTC) + timedelta(days=begins_in_days)
    authority = _builder("Authority", authority_key, begin, days, authority=True)
    leaf = _builder("Gallery", key, begin, days, authority=False)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    leaf = leaf.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
    )
    if status_url:
        place = x509.UniformResourceIdentifier(status_url)
        methods = (AuthorityInformationAccessOID.OCSP, AuthorityInformationAccessOID.CA_ISSUERS)
        access = [x509.AccessDescription(method, place) for method in methods]
        leaf = leaf.add_extension(x509.AuthorityInformationAccess(access), critical=False)
    chain = [builder.sign(authority_key, hashes.SHA256()).public_bytes(PEM) for builder in (leaf, authority)]
    certificate, private_key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(chain))
    hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private_key.write_bytes(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, hidden))
    return str(certificate), str(private_key)


def _builder(name: str, key: Key, begin: datetime, days: int, *, authority: bool) -> x509.CertificateBuilder:
    uses = dict.fromkeys((*USES, "encipher_only", "decipher_only"), False)
    usage = x509.KeyUsage(digital_signature=not authority, key_cert_sign=authority, **uses)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name("Authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )


def _name(name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"{name} of a test"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
