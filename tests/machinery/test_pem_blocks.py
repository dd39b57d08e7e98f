"""``pem_blocks``: blocks as Go's ``encoding/pem`` finds them."""

import time
from collections.abc import Callable

import pytest

from pilothouse.machinery.pem_blocks import pem_blocks

ONE = b"-----BEGIN A-----\nYQ==\n-----END A-----\n"
TWO = b"-----BEGIN B C-----\nYg==\n-----END B C-----"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(ONE + TWO, [(b"A", b"YQ=="), (b"B C", b"Yg==")], id="two blocks"),
        pytest.param(b"a text\n" + ONE + b"another\n" + TWO, [(b"A", b"YQ=="), (b"B C", b"Yg==")], id="with texts"),
        pytest.param(ONE.replace(b"\n", b" \r\n"), [(b"A", b"YQ== \r")], id="blanks at the ends of lines"),
        pytest.param(b"-----BEGIN A-----\n-----END A-----", [(b"A", b"")], id="without content"),
        pytest.param(b"-----BEGIN X-----\n" + ONE, [(b"A", b"YQ==")], id="a BEGIN without END"),
        pytest.param(b"\n-----END X-----\n" + ONE, [(b"A", b"YQ==")], id="an END without BEGIN"),
        pytest.param(ONE.replace(b"END A", b"END B"), [], id="another type at the end"),
        pytest.param(b"x" + ONE, [], id="BEGIN within a line"),
        pytest.param(ONE.replace(b"A-----\nY", b"A-----x\nY"), [], id="a text after BEGIN"),
        pytest.param(ONE.rstrip() + b"x\n" + TWO, [(b"B C", b"Yg==")], id="a text after END"),
    ],
)
def test_blocks(data: bytes, expected: list[tuple[bytes, bytes]]) -> None:
    assert [(block.type, block.body) for block in pem_blocks(data)] == expected


def test_text_and_end_of_a_block() -> None:
    (block,) = pem_blocks(b"x\n" + ONE + b"rest")
    assert (block.text, block.end) == (ONE.rstrip(), len(ONE) + 2)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda size: b"-----BEGIN A-----\n" * (size // 18), id="BEGINs"),
        pytest.param(lambda size: b"-----BEGIN A----- " * (size // 18), id="BEGINs in a line"),
        pytest.param(lambda size: b"\n-----END A-----" * (size // 16), id="ENDs"),
        pytest.param(lambda size: (b"-----BEGIN A-----\n" + b"\n-----END A-----") * (size // 33), id="both"),
        pytest.param(lambda size: b"-----BEGIN A-----\n-----END B-----\n" * (size // 34), id="of different types"),
    ],
)
def test_the_time_is_linear(make: Callable[[int], bytes]) -> None:
    data = make(3 << 20)
    started_at = time.process_time()
    assert list(pem_blocks(data)) == [] or data.count(b"END") > 1
    assert time.process_time() - started_at < 1.0
