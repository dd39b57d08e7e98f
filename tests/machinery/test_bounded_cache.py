"""Results for short strings are cached, those for long ones are not."""

from pilothouse.machinery.bounded_cache import bounded_cache


def test_cache_of_one_argument() -> None:
    requests: list[str] = []

    @bounded_cache(2, max_length=3)
    def upper(text: str) -> str:
        """The text in upper case."""
        requests.append(text)
        return text.upper()

    assert [upper(text) for text in ("a", "a", "long", "long", "b", "c", "a")] == [
        "A",
        "A",
        "LONG",
        "LONG",
        "B",
        "C",
        "A",
    ]
    assert requests == ["a", "long", "long", "b", "c", "a"]
    assert (upper.__name__, upper.__doc__) == ("upper", "The text in upper case.")


def test_cache_of_two_arguments() -> None:
    requests: list[tuple[str, str]] = []

    @bounded_cache(10, max_length=3)
    def both(first: str, second: str) -> str:
        requests.append((first, second))
        return first + second

    for pair in (("a", "b"), ("a", "b"), ("ab", "cd"), ("ab", "cd"), ("", "abc"), ("", "abc")):
        assert both(*pair) == "".join(pair)
    assert requests == [("a", "b"), ("ab", "cd"), ("ab", "cd"), ("", "abc")]
