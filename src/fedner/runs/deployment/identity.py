"""Keys, certificates and fingerprints: who somebody is, and who says so.

Every party makes its own key and keeps it. What leaves is a signing request; what comes back is a
certificate of the federation's authority. FLARE signs with RSA-PSS, so all keys are RSA.

The *fingerprint* of a party is the SHA-256 of its public key (not of its certificate): it is known
as soon as the key is, stays the same when a certificate is renewed, and differs if whoever holds
the authority invents a party with another key.
"""

import hashlib
import ipaddress
import os
from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedner.durable import write_bytes
from fedner.errors import FednerError

Kind = Literal["server", "platform", "coordinator", "watchdog"]
ADMINS: tuple[Kind, ...] = ("coordinator", "watchdog")

KEY_BITS = 3072
AUTHORITY_DAYS = 3650
_CLOCKS_DIFFER = timedelta(minutes=10)  # a certificate is valid at once on a clock that is behind
_HASH = hashes.SHA256()


@dataclass(frozen=True, slots=True)
class Authority:
    """The certificate authority of one federation; whoever holds its key decides who takes part."""

    key: rsa.RSAPrivateKey
    certificate: x509.Certificate


def make_key(path: Path) -> rsa.RSAPrivateKey:
    """Make a private key that only its owner can read, at a place where there is none.

    Raises:
        FednerError: There is a file already, or it cannot be written.
    """
    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    write_bytes(path, text, owner_only=True, overwrite=False)
    return key


def read_key(path: Path) -> rsa.RSAPrivateKey:
    """Return a private key, if nobody but its owner can read it.

    Raises:
        FednerError: It is missing, readable by others, or no RSA key.
    """
    try:
        data, mode = path.read_bytes(), path.stat().st_mode
    except OSError as error:
        raise FednerError(
            f"the private key {path} cannot be read: {error.strerror}",
            "A key stays where it was made; without it, request a new certificate with a new key.",
        ) from error
    if os.name == "posix" and mode & 0o077:
        raise FednerError(
            f"the private key {path} can be read by others (mode {mode & 0o777:04o})",
            f"Let only its owner read it: chmod 600 {path}. If others may have read it, it is no "
            "longer secret: request a new certificate with a new key.",
        )
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FednerError(f"{path} is not a private key", "Restore it from your backup.") from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise FednerError(
            f"{path} is not an RSA key", "fedner makes RSA keys; restore the one it made."
        )
    return key


def fingerprint(
    of: x509.Certificate | x509.CertificateSigningRequest | rsa.RSAPrivateKey,
) -> str:
    """Return the SHA-256 of a public key, as 64 hexadecimal digits."""
    public = of.public_key()
    data = public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(data).hexdigest()


def make_authority(path: Path, federation: str, now: datetime | None = None) -> Authority:
    """Make the authority of a federation; its key is written to `path`."""
    key = make_key(path)
    now = now or datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, federation)])
    builder = (
        _builder(name, name, key.public_key(), key)
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return Authority(key, builder.sign(key, _HASH))


def signing_request(key: rsa.RSAPrivateKey, name: str) -> str:
    """Return a request for a certificate, signed with the key that it is about, as PEM."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, _HASH)
    return request.public_bytes(serialization.Encoding.PEM).decode()


def read_signing_request(text: str, source: str) -> x509.CertificateSigningRequest:
    """Return a request whose signature shows that its sender holds the key.

    Raises:
        FednerError: It is none, its key is weak, or its signature is wrong.
    """
    hint = "Ask the sender for the file as `fedner platform request` wrote it."
    try:
        request = x509.load_pem_x509_csr(text.encode())
        key = request.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FednerError(f"{source}: not a signing request", hint) from error
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size < KEY_BITS:
        raise FednerError(f"{source}: expected an RSA key of at least {KEY_BITS} bits", hint)
    if not request.is_signature_valid:
        raise FednerError(f"{source}: the signature does not fit the key: it was altered", hint)
    return request


def issue(
    authority: Authority,
    request: x509.CertificateSigningRequest,
    name: str,
    kind: Kind,
    days: int,
    now: datetime | None = None,
) -> x509.Certificate:
    """Return a certificate for the key of a request; all it says is decided here, not there."""
    now = now or datetime.now(UTC)
    builder = (
        _builder(_subject(name, kind), authority.certificate.subject, _rsa(request), authority.key)
        .not_valid_before(max(now - _CLOCKS_DIFFER, authority.certificate.not_valid_before_utc))
        .not_valid_after(min(now + timedelta(days=days), authority.certificate.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([_purpose(kind)]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_other_name(name, kind)]), critical=False)
    )
    return builder.sign(authority.key, _HASH)


def _rsa(request: x509.CertificateSigningRequest) -> rsa.RSAPublicKey:
    key = request.public_key()
    if not isinstance(key, rsa.RSAPublicKey):
        raise FednerError("expected an RSA key", "fedner makes RSA keys.")
    return key


def _subject(name: str, kind: Kind) -> x509.Name:
    attributes = [
        x509.NameAttribute(NameOID.COMMON_NAME, name),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, name),
    ]
    if kind in ADMINS:  # FLARE reads the role of an admin here, and gives others none
        attributes.append(x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, kind))
    return x509.Name(attributes)


def _purpose(kind: Kind) -> x509.ObjectIdentifier:
    is_server = kind == "server"
    return ExtendedKeyUsageOID.SERVER_AUTH if is_server else ExtendedKeyUsageOID.CLIENT_AUTH


def _other_name(name: str, kind: Kind) -> x509.GeneralName:
    if kind in ADMINS:
        return x509.RFC822Name(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey, signer: rsa.RSAPrivateKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def pem(certificate: x509.Certificate) -> str:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def read_certificate(text: str, source: str) -> x509.Certificate:
    """Return a certificate from PEM.

    Raises:
        FednerError: It is none.
    """
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError as error:
        raise FednerError(
            f"{source}: not a certificate", "Use the file as fedner wrote it, or request it again."
        ) from error


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority signed a certificate; says nothing of its dates."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def common_name(certificate: x509.Certificate) -> str:
    """Return whose certificate it is."""
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def sign(authority: Authority, text: str) -> str:
    """Return the authority's signature of a text."""
    return b64encode(authority.key.sign(text.encode(), _padding(), _HASH)).decode()


def is_signed_by(authority: x509.Certificate, text: str, signature: str) -> bool:
    """Whether an authority signed a text."""
    key = authority.public_key()
    if not isinstance(key, rsa.RSAPublicKey):
        return False
    try:
        key.verify(b64decode(signature, validate=True), text.encode(), _padding(), _HASH)
    except (InvalidSignature, ValueError):
        return False
    return True


def _padding() -> padding.PSS:
    return padding.PSS(mgf=padding.MGF1(_HASH), salt_length=32)
