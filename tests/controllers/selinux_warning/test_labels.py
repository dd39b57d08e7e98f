"""SELinux labels and their conflicts.

After v1.36 ``pkg/controller/volume/selinuxwarning/translator/selinux_translator_test.go`` and
``…/internal/parse/selinux_label_test.go``; ids are the names of the cases there.
"""

from tests.tables import cases

from pilothouse.controllers.volumes.selinux_warning.decide import label_of, labels_conflict, parts_of
from pilothouse.controllers.volumes.selinux_warning.views import SELinuxOptions


@cases(
    "options, label",
    {
        "all fields set": (
            SELinuxOptions(user="system_u", role="system_r", type="container_t", level="s0:c0,c1"),
            "system_u:system_r:container_t:s0:c0,c1",
        ),
        "some fields": (SELinuxOptions(type="container_t", level="s0:c0,c1"), "::container_t:s0:c0,c1"),
        "only level set": (SELinuxOptions(level="s0:c0,c1"), ":::s0:c0,c1"),
        "no fields set": (SELinuxOptions(), ""),
    },
)
def test_selinux_options_to_label(options: SELinuxOptions, label: str) -> None:
    assert label_of(options) == label


@cases(
    "label, parts",
    {
        "empty label": ("", ("", "", "", "")),
        "complete label with all components": (
            "system_u:system_r:container_t:s0:c0,c1",
            ("system_u", "system_r", "container_t", "s0:c0,c1"),
        ),
        "label with user, role, and type only": ("u:r:t", ("u", "r", "t", "")),
        "label with user and role only": ("u:r", ("u", "r", "", "")),
        "label with user only": ("u", ("u", "", "", "")),
        "label missing user but with role and type": (":r:t", ("", "r", "t", "")),
        "label missing user and role but with type": ("::t", ("", "", "t", "")),
        "label missing user and role but with type and level": ("::t:s0", ("", "", "t", "s0")),
        "label with all empty components except level": (":::s0:c0,c1", ("", "", "", "s0:c0,c1")),
        "label with special characters": ("u_1:r-2:t.3:s0:c0.c1", ("u_1", "r-2", "t.3", "s0:c0.c1")),
        "label with extra colons in level": ("u:r:t:s0:c0,c1:x", ("u", "r", "t", "s0:c0,c1:x")),
        "multiple colons only": (":::", ("", "", "", "")),
        "five colons": (":::::", ("", "", "", "::")),
    },
)
def test_parse_selinux_label(label: str, parts: tuple[str, ...]) -> None:
    assert parts_of(label) == parts


@cases(
    "one, other, clash",
    {
        "empty strings don't conflict": ("", "", False),
        "empty string doesn't conflict with names": ("", "system_u:system_r:container_t", False),
        "empty parts don't conflict with names": (":::", "system_u:system_r:container_t", False),
        "equal labels": ("u:r:t", "u:r:t", False),
        "different lengths don't conflict if the common parts are the same": ("u:r:t", "u::", False),
        "different lengths conflict if the common parts differ": ("u:r:conflict_t:s0", "u:r:t", True),
        "empty parts with conflict": ("::conflict_t", "::container_t", True),
        "non-conflicting empty parts": ("system_u::container_t", ":system_r:", False),
        "the node may fill in the rest": ("u:r:t:s0:c1,c2", ":::s0:c1,c2", False),
        "different level conflicts": ("u:r:t:s0:c1,c2", ":::s0:c98,c99", True),
        "missing level conflicts": ("u:r:t:s0:c1,c2", "u:r:t", True),
        "empty label conflicts with a level": ("", ":::s0:c1,c2", True),
    },
)
def test_conflicting_labels(one: str, other: str, clash: bool) -> None:
    assert labels_conflict(one, other) is clash
    assert labels_conflict(other, one) is clash
