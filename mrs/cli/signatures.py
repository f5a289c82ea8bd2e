"""``mrs models sign``, and what ``mrs models verify --signature`` adds to verifying."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mrs.cli.options import JsonOption, ReferenceArgument, RepoOption, open_repository
from mrs.errors import SignatureError, UsageError

if TYPE_CHECKING:
    from mrs.model_repo.verification import VerificationReport
    from mrs.model_repo.version import ModelVersion

# No option: a command line is seen by everyone on the machine.
_PASSWORD_VARIABLE = "MRS_SIGNING_KEY_PASSWORD"


def sign_model(
    reference: ReferenceArgument,
    key: Annotated[
        Path,
        typer.Option(
            "--key",
            metavar="FILE",
            envvar="MRS_SIGNING_KEY",
            help="The private key: a PEM file with an elliptic-curve key (P-256, P-384, P-521). "
            f"If it is encrypted, ${_PASSWORD_VARIABLE} holds its password.",
            show_default=False,
        ),
    ],
    repo: RepoOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sign one version, so that others can check that it is what you made.

    The signature, model.sig in the version's folder, covers every file of the version and its
    lock. It has the format of OpenSSF Model Signing, and no service is asked for it.

    \b
    Example:
      openssl ecparam -name prime256v1 -genkey -noout -out release.pem
      openssl ec -in release.pem -pubout -out release.pub
      mrs models sign smollm2:1 --key release.pem
      mrs models verify smollm2:1 --signature --key release.pub
    """
    from mrs.cli.console import note, print_json
    from mrs.model_repo.signature import sign

    version = open_repository(repo).resolve(reference)
    path = sign(version, key, os.environ.get(_PASSWORD_VARIABLE))
    if as_json:
        print_json({"reference": version.reference, "signature": str(path)})
    else:
        note(f"Signed {version.reference}: {path}")


def trusted_key(signature: bool, key: Path | None) -> Path | None:
    """The key that signatures are checked with, or None if they are not to be checked.

    Raises:
        UsageError: signatures are to be checked, and there is no key for it.
    """
    if not signature:
        return None
    if key is None:
        raise UsageError(
            "--signature needs the public key of whoever signed.",
            hint="Name it with --key FILE, or in $MRS_PUBLIC_KEY.",
            param="key",
        )
    return key


def with_signature(
    report: VerificationReport, version: ModelVersion, key: Path
) -> VerificationReport:
    """A report with what is wrong with the signature, if anything is."""
    from mrs.model_repo.digests import SIGNATURE_FILE_NAME
    from mrs.model_repo.signature import verify_signature
    from mrs.model_repo.verification import Problem, ProblemKind

    try:
        verify_signature(version, key)
    except SignatureError as error:
        problem = Problem(SIGNATURE_FILE_NAME, ProblemKind.SIGNATURE, error.message)
        return replace(report, problems=(*report.problems, problem))
    return report
