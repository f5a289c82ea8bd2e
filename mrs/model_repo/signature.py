"""Signatures of versions, in the format of the OpenSSF Model Signing specification.

``model.sig`` in a version's folder is a Sigstore bundle, made with an elliptic-curve key and
without any service. It covers every other file of the folder, ``mrs.lock`` included, whatever the
folder is called: a copy has the signature of its original.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mrs.errors import RuntimeUnavailableError, SignatureError, UsageError
from mrs.model_repo.digests import (
    SIGNATURE_FILE_NAME,
    list_files,
    read_small_file,
    sha256_file,
)
from mrs.model_repo.lock import LOCK_FILE_NAME
from mrs.model_repo.storage import storage_errors, unlink_quietly
from mrs.model_repo.verification import verify
from mrs.model_repo.version import ModelVersion

# A signature names each file; a version has about ten.
_LARGEST_SIGNATURE = 4 << 20
_LARGEST_KEY = 64 << 10


def signature_path(version: ModelVersion) -> Path:
    """Where a version's signature lies, if it has one."""
    return version.path / SIGNATURE_FILE_NAME


def sign(version: ModelVersion, private_key: Path, password: str | None = None) -> Path:
    """Sign a version, which must be sound; a signature that is there is replaced.

    Args:
        version: what to sign.
        private_key: a PEM file with an elliptic-curve key (P-256, P-384 or P-521).
        password: of the key, if it is encrypted.

    Returns:
        The path of the signature.

    Raises:
        CorruptVersionError: the version is damaged.
        UsageError: the key cannot be used.
        RuntimeUnavailableError: the ``sign`` extra is not installed.
        StorageError: the signature cannot be written.
    """
    signing = _model_signing().signing
    _read_key(private_key, "--key")
    secret = None if password is None else password.encode("utf-8")
    with _key_errors(private_key):
        config = signing.Config().use_elliptic_key_signer(private_key=private_key, password=secret)
    verify(version).require_ok()
    target = signature_path(version)
    with tempfile.TemporaryDirectory() as folder, storage_errors(target):
        written = Path(folder, SIGNATURE_FILE_NAME)
        config.set_hashing_config(_hashing_config()).sign(version.path, written)
        _replace(target, written.read_bytes())
    return target


def verify_signature(version: ModelVersion, public_key: Path) -> None:
    """Check that a version is exactly what the owner of a key has signed.

    Args:
        version: the version; that it agrees with its lock is for `verify` to tell.
        public_key: the PEM file of the public key.

    Raises:
        SignatureError: there is no signature, it is of another key, or a file has changed, is new
            or is missing.
        UsageError: the key cannot be used.
        RuntimeUnavailableError: the ``sign`` extra is not installed.
    """
    verifying = _model_signing().verifying
    _read_key(public_key, "--key")
    with _key_errors(public_key):
        config = verifying.Config().use_elliptic_key_verifier(public_key=public_key)
    content = _read_signature(version)
    config.set_hashing_config(_hashing_config())
    with tempfile.TemporaryDirectory() as folder:
        # What was bounded is what is parsed, whatever happens to the file meanwhile.
        copy = Path(folder, SIGNATURE_FILE_NAME)
        copy.write_bytes(content)
        try:
            # The library prints a warning for signatures of its first releases.
            with contextlib.redirect_stdout(io.StringIO()):
                config.verify(version.path, copy)
        except Exception as error:
            # A dozen unrelated types: parsers', the cryptography library's and its own.
            raise _invalid(version, _reason(error, version, content)) from error
    # A signer may have left files out: those could be anything.
    left_out = sorted(_present_files(version) - _signed_files(content).keys())
    if left_out:
        raise _invalid(version, f"it does not cover {left_out[0]}")


def _signed_files(signature: bytes) -> dict[str, str]:
    """The SHA-256 of each file by its path, as a signature that was checked states them."""
    statement = json.loads(base64.b64decode(json.loads(signature)["dsseEnvelope"]["payload"]))
    resources = statement["predicate"]["resources"]
    return {resource["name"]: resource["digest"] for resource in resources}


def _present_files(version: ModelVersion) -> set[str]:
    """All that lies in a version but the signature."""
    lock = {LOCK_FILE_NAME} if os.path.lexists(version.path / LOCK_FILE_NAME) else set()
    return {*list_files(version.path), *lock}


def _first_difference(version: ModelVersion, signed: dict[str, str]) -> str:
    present = _present_files(version)
    for path in sorted(present | signed.keys()):
        if path not in present:
            return f"{path} is missing"
        if path not in signed:
            return f"{path} was not signed"
        if sha256_file(version.path / path)[1] != signed[path]:
            return f"{path} has changed"
    return "the files have changed"


def _read_signature(version: ModelVersion) -> bytes:
    path = signature_path(version)
    try:
        return read_small_file(path, _LARGEST_SIGNATURE)
    except FileNotFoundError:
        raise SignatureError(
            f"{version.reference} is not signed.",
            hint=f"Sign it with `mrs models sign {version.reference} --key FILE`.",
        ) from None
    except OSError as error:
        raise _invalid(version, f"it cannot be read ({error.strerror})") from error


def _invalid(version: ModelVersion, reason: str) -> SignatureError:
    return SignatureError(
        f"The signature of {version.reference} does not hold: {reason}.",
        hint="Do not use this version before you know why; export and sign it again.",
    )


def _reason(error: Exception, version: ModelVersion, signature: bytes) -> str:
    if type(error).__name__ == "InvalidSignature":
        return "it was not made with that key, or was changed"
    text = (str(error).splitlines() or [""])[0].rstrip(". ")
    if text.startswith("Key mismatch"):
        return "it was made with another key"
    if text.startswith("Signature mismatch"):  # So the signature itself is genuine.
        return _first_difference(version, _signed_files(signature))
    if isinstance(error, OSError) or text.startswith("Cannot use"):
        return f"a file cannot be read ({text:.200})"
    return f"it is malformed ({type(error).__name__})"


def _read_key(path: Path, option: str) -> bytes:
    try:
        return read_small_file(path.resolve(), _LARGEST_KEY)
    except OSError as error:
        raise UsageError(
            f"The key {path} cannot be read: {error.strerror or error}.", param=option
        ) from error


@contextmanager
def _key_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Of the cryptography library: wrong format, wrong password, a key of another kind.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"The key {path} cannot be used: {reason:.200}",
            hint="Keys are PEM files with a P-256, P-384 or P-521 key: "
            "openssl ecparam -name prime256v1 -genkey -noout -out key.pem; "
            "openssl ec -in key.pem -pubout -out key.pub.",
        ) from error


def _hashing_config() -> Any:
    """All files but the signature; by default the library would leave out those of Git."""
    hashing = _model_signing().hashing
    return hashing.Config().set_ignored_paths(paths=[SIGNATURE_FILE_NAME], ignore_git_paths=False)


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that it is whole or the old one."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        unlink_quietly(temporary)


def _model_signing() -> Any:
    try:
        import model_signing
    except ImportError as error:
        raise RuntimeUnavailableError(
            f"Signatures need {error.name or 'model_signing'}, which is not installed.",
            hint="Install what they need: pip install 'mrs-onnx[sign]'",
        ) from error
    return model_signing
