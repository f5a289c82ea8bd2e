from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from mrs.errors import CorruptVersionError, RuntimeUnavailableError, SignatureError, UsageError
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.signature import sign, signature_path, verify_signature
from mrs.model_repo.verification import verify
from mrs.model_repo.version import ModelVersion
from tests.model_repo.samples import publish

FILES = (
    "cpu/model.onnx",
    "cpu/model.onnx.data",
    "tokenizer.json",
    "manifest.json",
    "mrs.lock",
)


@pytest.fixture
def version(repository: ModelRepository) -> ModelVersion:
    return publish(repository)


class Keys:
    """A pair of keys in PEM files."""

    def __init__(
        self, folder: Path, curve: ec.EllipticCurve | None = None, password: bytes | None = None
    ) -> None:
        self.private, self.public = folder / "key.pem", folder / "key.pub"
        folder.mkdir()
        key = ec.generate_private_key(curve or ec.SECP256R1())
        write_private(self.private, key, password)
        self.public.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )


def write_private(
    path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes | None = None
) -> None:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys")


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_what_was_signed_holds(
    version: ModelVersion, tmp_path: Path, curve: ec.EllipticCurve
) -> None:
    keys = Keys(tmp_path / "keys", curve)
    assert sign(version, keys.private) == version.path / "model.sig"
    verify_signature(version, keys.public)


def test_a_signature_is_no_damage(
    version: ModelVersion, keys: Keys, repository: ModelRepository
) -> None:
    sign(version, keys.private)
    assert verify(version).ok
    assert repository.resolve("tiny").lock == version.lock
    assert repository.find_by_input("tiny", version.lock.input_digest) is not None
    assert repository.gc().bytes_freed == 0
    repository.remove("tiny:1")
    assert not version.path.exists()


def test_a_copy_has_the_signature_of_its_original(
    version: ModelVersion, keys: Keys, tmp_path: Path
) -> None:
    sign(version, keys.private)
    shutil.copytree(version.path, tmp_path / "elsewhere")
    verify_signature(replace(version, path=tmp_path / "elsewhere"), keys.public)


@pytest.mark.parametrize("file", FILES)
def test_a_changed_file_is_named(version: ModelVersion, keys: Keys, file: str) -> None:
    sign(version, keys.private)
    path = version.path / file
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(SignatureError, match=f": {file} has changed"):
        verify_signature(version, keys.public)


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_named(version: ModelVersion, keys: Keys, file: str) -> None:
    sign(version, keys.private)
    (version.path / file).unlink()
    with pytest.raises(SignatureError, match=f": {file} is missing"):
        verify_signature(version, keys.public)


@pytest.mark.parametrize("file", ["more.onnx", "cpu/custom_op.so", ".gitignore", ".git/config"])
def test_an_added_file_is_named(version: ModelVersion, keys: Keys, file: str) -> None:
    sign(version, keys.private)
    (version.path / file).parent.mkdir(exist_ok=True)
    (version.path / file).write_text("new")
    with pytest.raises(SignatureError, match=f": {file} was not signed"):
        verify_signature(version, keys.public)


def test_a_link_in_place_of_a_file_is_refused(
    version: ModelVersion, keys: Keys, tmp_path: Path
) -> None:
    sign(version, keys.private)
    version.graph_path.rename(tmp_path / "elsewhere")
    version.graph_path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SignatureError, match=r"cannot be read .*symlink"):
        verify_signature(version, keys.public)


def test_another_key_is_no_proof(version: ModelVersion, keys: Keys, tmp_path: Path) -> None:
    sign(version, keys.private)
    with pytest.raises(SignatureError, match="made with another key"):
        verify_signature(version, Keys(tmp_path / "other").public)


def test_the_hint_of_the_right_key_does_not_help(
    version: ModelVersion, keys: Keys, tmp_path: Path
) -> None:
    """The bundle says which key it is of; that must not be what is believed."""
    sign(version, keys.private)
    right = signature_path(version).read_text()
    sign(version, Keys(tmp_path / "other").private)
    forged = signature_path(version).read_text()
    hints = [re.findall(r'"hint": ?"(.*?)"', text)[0] for text in (right, forged)]
    assert hints[0] != hints[1]
    signature_path(version).write_text(forged.replace(hints[1], hints[0]))
    with pytest.raises(SignatureError, match="not made with that key, or was changed"):
        verify_signature(version, keys.public)


def test_a_signature_that_leaves_files_out_is_refused(version: ModelVersion, keys: Keys) -> None:
    import model_signing

    hashing = model_signing.hashing.Config().set_ignored_paths(paths=["model.sig", "cpu"])
    config = model_signing.signing.Config().set_hashing_config(hashing)
    config.use_elliptic_key_signer(private_key=keys.private)
    config.sign(version.path, signature_path(version))
    with pytest.raises(SignatureError, match="does not cover cpu/model"):
        verify_signature(version, keys.public)


def test_signing_again_replaces_the_signature(
    version: ModelVersion, keys: Keys, tmp_path: Path
) -> None:
    sign(version, Keys(tmp_path / "old").private)
    sign(version, keys.private)
    verify_signature(version, keys.public)
    assert sorted(path.name for path in version.path.glob("model.sig*")) == ["model.sig"]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"\xff", b'{"verificationMaterial": 1}', b"[" * 5000]
)
def test_garbage_is_no_signature(version: ModelVersion, keys: Keys, content: bytes) -> None:
    signature_path(version).write_bytes(content)
    with pytest.raises(SignatureError, match="malformed"):
        verify_signature(version, keys.public)


def test_a_signature_of_unreasonable_size_is_not_read(version: ModelVersion, keys: Keys) -> None:
    signature_path(version).write_bytes(b"")
    os.truncate(signature_path(version), 1 << 40)
    with pytest.raises(SignatureError, match="cannot be read"):
        verify_signature(version, keys.public)


def test_a_link_is_no_signature(version: ModelVersion, keys: Keys, tmp_path: Path) -> None:
    sign(version, keys.private).rename(tmp_path / "model.sig")
    signature_path(version).symlink_to(tmp_path / "model.sig")
    with pytest.raises(SignatureError, match="cannot be read"):
        verify_signature(version, keys.public)
    assert [problem.kind for problem in verify(version).problems] == ["symlink"]


def test_an_unsigned_version_says_so(version: ModelVersion, keys: Keys) -> None:
    with pytest.raises(SignatureError, match="tiny:1 is not signed"):
        verify_signature(version, keys.public)


def test_a_damaged_version_is_not_signed(version: ModelVersion, keys: Keys) -> None:
    version.graph_path.write_bytes(b"other")
    with pytest.raises(CorruptVersionError):
        sign(version, keys.private)
    assert not signature_path(version).exists()


def test_an_encrypted_key_needs_its_password(version: ModelVersion, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys", password=b"secret")
    sign(version, keys.private, "secret")
    verify_signature(version, keys.public)
    for wrong in (None, "guess"):
        with pytest.raises(UsageError, match=r"key\.pem cannot be used"):
            sign(version, keys.private, wrong)


def test_keys_of_other_kinds_are_refused(version: ModelVersion, tmp_path: Path) -> None:
    path = tmp_path / "other.pem"
    for key in (ec.generate_private_key(ec.SECP256K1()), rsa.generate_private_key(65537, 2048)):
        write_private(path, key)
        with pytest.raises(UsageError, match=r"other\.pem cannot be used"):
            sign(version, path)


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PUBLIC KEY-----\n"])
def test_a_file_that_is_no_key_is_refused(
    version: ModelVersion, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "no.key"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"no\.key cannot be used"):
        sign(version, path)
    with pytest.raises(UsageError, match=r"no\.key cannot be used"):
        verify_signature(version, path)


def test_a_key_must_exist(version: ModelVersion, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        sign(version, tmp_path / "missing")


def test_without_the_extra_the_error_tells_how_to_install_it(
    version: ModelVersion, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "model_signing", None)
    for attempt in (
        lambda: sign(version, keys.private),
        lambda: verify_signature(version, keys.public),
    ):
        with pytest.raises(RuntimeUnavailableError) as caught:
            attempt()
        assert "mrs-onnx[sign]" in caught.value.hint
