"""A Sigstore of one's own in memory: authority, certificate log and transparency log, each with a real key.

It makes real bundles without the network: certificate, its log's promise, log entry, inclusion
proof and signature all hold, so that Sigstore's library has everything to check.
"""

from __future__ import annotations

import hashlib
import json
import struct
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

WHO = "https://github.com/some/where/.github/workflows/build.yml@refs/heads/main"
ISSUER = "https://token.actions.githubusercontent.com"
_INTOTO = "application/vnd.in-toto+json"
_SCTS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_LOG = "log.invalid"


def text64(data: bytes) -> str:
    return b64encode(data).decode()


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def signed(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(SHA256()))


def public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def identifier(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(public(key)).digest()


class Sigstore:
    """One instance; `root` is what its users trust, `bundle` what its signers get."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.authority, self.certificates, self.log = new_key(), new_key(), new_key()
        self.ca = self._authority()

    def root(self) -> bytes:
        """Its trusted_root.json."""
        since = {"start": (self.now - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")}
        subject = {"organization": "invalid", "commonName": "test"}
        chain = {"certificates": [{"rawBytes": text64(self.ca.public_bytes(Encoding.DER))}]}
        document = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [_log(self.log, since)],
            "ctlogs": [_log(self.certificates, since)],
            "certificateAuthorities": [
                {"subject": subject, "uri": "https://ca.invalid", "certChain": chain, "validFor": since}
            ],
            "timestampAuthorities": [],
        }
        return json.dumps(document).encode()

    def bundle(self, payload: bytes, who: str = WHO, issuer: str = ISSUER) -> dict[str, Any]:
        """The bundle that `who` gets for a statement."""
        key = new_key()
        certificate = self._certificate(key, who, issuer)
        signature = signed(key, b"DSSEv1 %d %s %d %s" % (len(_INTOTO), _INTOTO.encode(), len(payload), payload))
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": text64(certificate.public_bytes(Encoding.DER))},
                "tlogEntries": [self._entry(certificate, payload, signature)],
            },
            "dsseEnvelope": {
                "payload": text64(payload),
                "payloadType": _INTOTO,
                "signatures": [{"sig": text64(signature)}],
            },
        }

    def _authority(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        key = self.authority.public_key()
        builder = _builder(key, name, name, self.now - timedelta(days=1), timedelta(days=9), 1)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_usage(ca=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        return builder.sign(self.authority, SHA256())

    def _certificate(self, key: ec.EllipticCurvePrivateKey, who: str, issuer: str) -> x509.Certificate:
        """With the certificate log's promise inside: over the same certificate without it."""
        bare = self._leaf(key, who, issuer, b"")
        stamp = int(self.now.timestamp() * 1000)
        body = bare.tbs_precertificate_bytes
        entry = identifier(self.authority) + len(body).to_bytes(3, "big") + body
        signature = signed(self.certificates, struct.pack("!BBQH", 0, 0, stamp, 1) + entry + b"\0\0")
        promise = b"\0" + identifier(self.certificates) + struct.pack("!QH", stamp, 0)
        promise += b"\x04\x03" + struct.pack("!H", len(signature)) + signature
        return self._leaf(key, who, issuer, promise)

    def _leaf(self, key: ec.EllipticCurvePrivateKey, who: str, issuer: str, promise: bytes) -> x509.Certificate:
        listed = struct.pack("!HH", len(promise) + 2, len(promise)) + promise
        builder = _builder(
            key.public_key(), x509.Name([]), self.ca.subject, self.now - timedelta(minutes=1), timedelta(minutes=11), 2
        )
        builder = builder.add_extension(_usage(ca=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key()), critical=False
        )
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(who)]), critical=True
        )
        builder = builder.add_extension(x509.UnrecognizedExtension(_ISSUER, issuer.encode()), critical=False)
        builder = builder.add_extension(x509.UnrecognizedExtension(_SCTS, _octets(listed)), critical=False)
        return builder.sign(self.authority, SHA256())

    def _entry(self, certificate: x509.Certificate, payload: bytes, signature: bytes) -> dict[str, Any]:
        pem = text64(certificate.public_bytes(Encoding.PEM))
        spec = {
            "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(b"envelope").hexdigest()},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [{"signature": text64(signature), "verifier": pem}],
        }
        body = _canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        time, root = int(self.now.timestamp()), hashlib.sha256(b"\0" + body).digest()
        promised = {"body": text64(body), "integratedTime": time, "logID": identifier(self.log).hex(), "logIndex": 0}
        note = f"{_LOG}\n1\n{text64(root)}\n"
        line = text64(identifier(self.log)[:4] + signed(self.log, note.encode()))
        return {
            "logIndex": "0",
            "logId": {"keyId": text64(identifier(self.log))},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(time),
            "inclusionPromise": {"signedEntryTimestamp": text64(signed(self.log, _canonical(promised)))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": text64(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 {_LOG} {line}\n"},
            },
            "canonicalizedBody": text64(body),
        }


def _log(key: ec.EllipticCurvePrivateKey, since: dict[str, str]) -> dict[str, Any]:
    held = {"rawBytes": text64(public(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": since}
    return {
        "baseUrl": "https://log.invalid",
        "hashAlgorithm": "SHA2_256",
        "publicKey": held,
        "logId": {"keyId": text64(identifier(key))},
    }


def _builder(
    key: ec.EllipticCurvePublicKey, subject: x509.Name, issuer: x509.Name, since: datetime, span: timedelta, serial: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(serial).not_valid_before(since).not_valid_after(since + span)


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _octets(data: bytes) -> bytes:
    """A DER octet string of less than 64 KiB."""
    size = bytes([len(data)]) if len(data) < 128 else b"\x82" + struct.pack("!H", len(data))
    return b"\x04" + size + data


def _canonical(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
