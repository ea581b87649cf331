"""Certificates for manifests: the operator's, or a self-made one that says so in its subject.

C2PA does not accept a certificate that has signed itself, so a self-made certificate is issued by an
authority of its own. The authority's private key is dropped: it never issues another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bot.config.mistakes import is_pasted, quoted
from bot.domain.errors import ConfigurationError
from bot.process.private_files import make_folder, write_private

SELF_MADE_FILE = "self-made.pem"
ORGANIZATION = "Self-made by sdjax-bot; no authority has checked it"
VALID_DAYS = 3650
RENEWED_DAYS = 30  # before its end, a self-made certificate is replaced at the start
PEM = serialization.Encoding.PEM
KEY_BEGINS = b"-----BEGIN PRIVATE KEY-----"
USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)

Now = Callable[[], datetime]


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """A certificate with its chain, the signer's first, and its private key, both as PEM."""

    chain: bytes
    private_key: bytes = field(repr=False)
    algorithm: str
    self_made: bool = False


def utc_now() -> datetime:
    """Return the time now, in UTC."""
    return datetime.now(UTC)


def read_credentials(
    certificate: str, private_key: str, algorithm: str, *, now: Now = utc_now
) -> Credentials:
    """Return the operator's certificate and key; raises ConfigurationError, one sentence for each mistake."""
    chain = _read(certificate, "provenance.certificate")
    key = _read(private_key, "provenance.private_key")
    mistakes: list[str] = []
    first = _certificate_in(chain, certificate, mistakes, now())
    loaded = _key_in(key, private_key, mistakes)
    if loaded is not None and algorithm not in _algorithms_of(loaded):
        fitting = " or ".join(_algorithms_of(loaded)) or "no algorithm of C2PA"
        mistakes.append(f"provenance.algorithm: the private key signs with {fitting}.")
    if (
        first is not None
        and loaded is not None
        and _public(first.public_key()) != _public(loaded.public_key())
    ):
        mistakes.append(f"provenance.private_key: {quoted(private_key)} is not the key of the certificate.")
    if mistakes:
        raise ConfigurationError("\n".join(mistakes))
    assert loaded is not None
    return Credentials(chain=chain, private_key=_pem(loaded), algorithm=algorithm)


def kept_credentials(folder: Path, *, now: Now = utc_now) -> Credentials:
    """Return the self-made certificate in `folder`, which is made where there is none or it ends soon.

    Only this user may read the file, which holds the private key too. Raises OSError.
    """
    file = folder / SELF_MADE_FILE
    for _ in range(2):
        found = _kept(file, now())
        if found is not None:
            return found
        made = self_made(now=now)
        make_folder(folder)
        if write_private(file, made.chain + made.private_key):
            return made
    return made  # another process has just written a file that this one cannot use


def self_made(*, now: Now = utc_now) -> Credentials:
    """Return a new self-made certificate with its authority, and its private key."""
    begin = now() - timedelta(hours=1)  # clocks differ
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = (
        _builder("sdjax-bot self-made authority", "sdjax-bot self-made authority", authority_key, begin)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign"), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    leaf = (
        _builder("sdjax-bot self-made", "sdjax-bot self-made authority", key, begin)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION]), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    chain = leaf.public_bytes(PEM) + authority.public_bytes(PEM)
    return Credentials(chain=chain, private_key=_pem(key), algorithm="es256", self_made=True)


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, begin: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _usage(use: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{name: name == use for name in USES})


def _kept(file: Path, now: datetime) -> Credentials | None:
    """Return the self-made certificate in `file`, or None; delete one that is damaged or ends soon."""
    try:
        chain, begins, key = file.read_bytes().partition(KEY_BEGINS)
    except FileNotFoundError:
        return None
    mistakes: list[str] = []
    certificate = _certificate_in(chain, str(file), mistakes, now + timedelta(days=RENEWED_DAYS))
    loaded = _key_in(begins + key, str(file), mistakes)
    if mistakes or certificate is None or loaded is None:
        file.unlink(missing_ok=True)
        return None
    return Credentials(chain=chain, private_key=begins + key, algorithm="es256", self_made=True)


def _read(file: str, key: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        if is_pasted(file, error):
            raise ConfigurationError(
                f"{key}: there is no such file. If this is the PEM text itself, write it into a file of its "
                "own, and the name of that file here."
            ) from None
        raise ConfigurationError(f"{key}: {quoted(file)} cannot be read: {error.strerror}.") from None


def _certificate_in(data: bytes, file: str, mistakes: list[str], now: datetime) -> x509.Certificate | None:
    """Return the first certificate, and note what is wrong with it."""
    try:
        certificate = x509.load_pem_x509_certificates(data)[0]
    except ValueError:
        mistakes.append(f"provenance.certificate: {quoted(file)} is not a PEM file of certificates.")
        return None
    if now > certificate.not_valid_after_utc:
        ended = certificate.not_valid_after_utc.date()
        mistakes.append(f"provenance.certificate: the certificate in {quoted(file)} ended on {ended}.")
    if now < certificate.not_valid_before_utc:
        begins = certificate.not_valid_before_utc.date()
        mistakes.append(f"provenance.certificate: the certificate in {quoted(file)} begins on {begins}.")
    return certificate


def _key_in(data: bytes, file: str, mistakes: list[str]) -> _PrivateKey | None:
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except TypeError:
        mistakes.append(
            f"provenance.private_key: the key in {quoted(file)} is encrypted, and the bot has no password."
        )
    except (ValueError, UnsupportedAlgorithm):
        mistakes.append(f"provenance.private_key: {quoted(file)} is not a PEM file of a private key.")
    else:
        if isinstance(key, _PRIVATE_KEYS):
            return key
        mistakes.append(f"provenance.private_key: C2PA has no algorithm for the key in {quoted(file)}.")
    return None


_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
_PRIVATE_KEYS = (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey, ed25519.Ed25519PrivateKey)
_CURVES = {"secp256r1": "es256", "secp384r1": "es384", "secp521r1": "es512"}


def _pem(key: _PrivateKey) -> bytes:
    """Return the key in the form that the library reads."""
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _algorithms_of(key: _PrivateKey) -> tuple[str, ...]:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return tuple(filter(None, [_CURVES.get(key.curve.name)]))
    return ("ps256", "ps384", "ps512") if isinstance(key, rsa.RSAPrivateKey) else ("ed25519",)


def _public(key: object) -> bytes:
    """Return a public key as bytes that are equal for equal keys."""
    public_bytes: Callable[..., bytes] = key.public_bytes  # type: ignore[attr-defined]
    return public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
