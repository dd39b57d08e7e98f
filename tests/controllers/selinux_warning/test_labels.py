"""What a label is, and which ones clash.

After v1.36 ``pkg/controller/volume/selinuxwarning/translator/selinux_translator_test.go`` and
``…/internal/parse/selinux_label_test.go``; ids are the names of the cases there.
"""

import pytest

from pilothouse.controllers.volumes.selinux_warning.decide import label_of, labels_clash, parts_of
from pilothouse.controllers.volumes.selinux_warning.views import SELinuxOptions


@pytest.mark.parametrize(
    ("options", "label"),
    [
        pytest.param(
            SELinuxOptions(user="system_u", role="system_r", type="container_t", level="s0:c0,c1"),
            "system_u:system_r:container_t:s0:c0,c1",
            id="all fields set",
        ),
        pytest.param(SELinuxOptions(type="container_t", level="s0:c0,c1"), "::container_t:s0:c0,c1", id="some fields"),
        pytest.param(SELinuxOptions(level="s0:c0,c1"), ":::s0:c0,c1", id="only level set"),
        pytest.param(SELinuxOptions(), "", id="no fields set"),
    ],
)
def test_the_label_of_options(options: SELinuxOptions, label: str) -> None:
    assert label_of(options) == label


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        pytest.param("", ("", "", "", ""), id="empty label"),
        pytest.param(
            "system_u:system_r:container_t:s0:c0,c1",
            ("system_u", "system_r", "container_t", "s0:c0,c1"),
            id="complete label with all components",
        ),
        pytest.param("u:r:t", ("u", "r", "t", ""), id="label with user, role, and type only"),
        pytest.param("u:r", ("u", "r", "", ""), id="label with user and role only"),
        pytest.param("u", ("u", "", "", ""), id="label with user only"),
        pytest.param(":r:t", ("", "r", "t", ""), id="label missing user but with role and type"),
        pytest.param("::t", ("", "", "t", ""), id="label missing user and role but with type"),
        pytest.param("::t:s0", ("", "", "t", "s0"), id="label missing user and role but with type and level"),
        pytest.param(":::s0:c0,c1", ("", "", "", "s0:c0,c1"), id="label with all empty components except level"),
        pytest.param("u_1:r-2:t.3:s0:c0.c1", ("u_1", "r-2", "t.3", "s0:c0.c1"), id="label with special characters"),
        pytest.param("u:r:t:s0:c0,c1:x", ("u", "r", "t", "s0:c0,c1:x"), id="label with extra colons in level"),
        pytest.param(":::", ("", "", "", ""), id="multiple colons only"),
        pytest.param(":::::", ("", "", "", "::"), id="five colons"),
    ],
)
def test_the_parts_of_a_label(label: str, parts: tuple[str, ...]) -> None:
    assert parts_of(label) == parts


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        pytest.param("", "", False, id="empty strings don't conflict"),
        pytest.param("", "system_u:system_r:container_t", False, id="empty string doesn't conflict with names"),
        pytest.param(":::", "system_u:system_r:container_t", False, id="empty parts don't conflict with names"),
        pytest.param("u:r:t", "u:r:t", False, id="the same"),
        pytest.param("u:r:t", "u::", False, id="different lengths don't conflict if the common parts are the same"),
        pytest.param("u:r:conflict_t:s0", "u:r:t", True, id="different lengths conflict if the common parts differ"),
        pytest.param("::conflict_t", "::container_t", True, id="empty parts with conflict"),
        pytest.param("system_u::container_t", ":system_r:", False, id="non-conflicting empty parts"),
        pytest.param("u:r:t:s0:c1,c2", ":::s0:c1,c2", False, id="the node may fill in the rest"),
        pytest.param("u:r:t:s0:c1,c2", ":::s0:c98,c99", True, id="but not another level"),
        pytest.param("u:r:t:s0:c1,c2", "u:r:t", True, id="nor a level at all"),
        pytest.param("", ":::s0:c1,c2", True, id="nor one for a label that is empty"),
    ],
)
def test_which_labels_clash(one: str, other: str, clash: bool) -> None:
    assert labels_clash(one, other) is clash
    assert labels_clash(other, one) is clash
