"""String formats: values that kube-apiserver v1.20.2 accepts and rejects."""

import pytest

from pilothouse.machinery.string_formats import FORMATS

TAKEN_AND_REFUSED = [
    ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["x"]),
    ("uri", ["http://x/y", "/a", "x:y"], ["not a uri", "foo", "a b"]),
    ("email", ["a@b.c", "A <a@b.c>"], ["x"]),
    (
        "hostname",
        [],
        ["-x", "a.b", "A_b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ex.com.", "1.2"],
    ),
    ("ipv4", ["1.2.3.4"], ["1.2.3", "::1"]),
    ("ipv6", ["::1", "::ffff:1.2.3.4"], ["x", "1.2.3.4"]),
    ("cidr", ["1.2.3.4/8", "::/0"], ["1.2.3.4", "1.2.3.4/33"]),
    ("mac", ["00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455"], ["x"]),
    ("uuid", ["a8098c1a-f86e-11da-bd1a-00112444be1e", "A8098C1AF86E11DABD1A00112444BE1E"], ["x"]),
    ("uuid3", ["6fa459ea-ee8a-3ca4-894e-db77e160355e"], ["x", "a8098c1a-f86e-11da-bd1a-00112444be1e"]),
    ("uuid4", ["16fd2706-8baf-433b-82eb-8c7fada847da"], ["x"]),
    ("uuid5", ["886313e1-3b8a-5372-9b90-0c9aee199e5d"], ["x"]),
    ("isbn", ["978-0321751041"], ["x", "0321751042"]),
    ("isbn10", [], ["x", "0321751042", "0321751041"]),
    ("isbn13", ["978-0321751041"], ["x"]),
    ("creditcard", ["4111-1111-1111-1111", "378282246310005"], ["x", "1234"]),
    ("ssn", ["111-11-1111"], ["x", "123456789"]),
    ("hexcolor", ["#fff", "#ffffff", "fff"], ["x", "ggg"]),
    ("rgbcolor", ["rgb(0,0,0)"], ["x", "rgb(300,0,0)"]),
    ("byte", ["aGk="], ["x", "aGk", "!!"]),
    ("password", ["any"], []),
    ("date", ["2020-01-01"], ["x", "2020-13-01", "2020-1-1"]),
    ("duration", ["1h", "1 day", "3 weeks", "-1s"], ["x", "1y"]),
    ("datetime", ["2020-01-01T00:00:00Z"], ["x", "2020-01-01 00:00:00"]),
    ("date-time", ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.123+01:00"], ["x", "2020-01-01T00:00:00"]),
    ("foo", ["x"], []),
]


@pytest.mark.parametrize(("name", "accepted", "refused"), TAKEN_AND_REFUSED, ids=[row[0] for row in TAKEN_AND_REFUSED])
def test_formats(name: str, accepted: list[str], refused: list[str]) -> None:
    check = FORMATS.get(name)
    if check is None:
        assert name in ("password", "foo")  # unknown ones accept everything
        return
    assert [text for text in accepted if not check(text)] == []
    assert [text for text in refused if check(text)] == []
