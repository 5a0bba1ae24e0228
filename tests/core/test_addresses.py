"""What of an address may be shown."""

import pytest

from longrank.core.addresses import shown_address, shown_values


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("http://localhost:8080/rerank", "http://localhost:8080/rerank"),
        ("https://me:SECRET@host/rerank", "https://host/rerank"),
        ("https://SECRET@host/rerank", "https://host/rerank"),
        ("https://me:SEC@RET@host:81/rerank", "https://host:81/rerank"),
        ("https://me:SEC/RET@host/rerank", "https://host/rerank"),
        ("https://me:SEC?RET@host/rerank", "https://host/rerank"),
        ("http://me:SECRET@[::1]:8080/rerank", "http://[::1]:8080/rerank"),
        ("http://[::1]:8080/rerank", "http://[::1]:8080/rerank"),
        ("https://host/llama@001/rerank", "https://host/llama@001/rerank"),
        ("https://host/rerank?api_key=SECRET", "https://host/rerank"),
        ("https://host/rerank?model=rerank-v3.5&accessToken=SECRET", "https://host/rerank?model=rerank-v3.5"),
        ("https://host/rerank?Subscription-Key=SECRET&max_tokens=512", "https://host/rerank?max_tokens=512"),
        ("https://host/rerank?api%5Fkey=SECRET", "https://host/rerank"),
        ("https://host/rerank?k=SECRET-0123456789abcdef", "https://host/rerank"),
        ("https://host/rerank?SECRET-0123456789abcdef", "https://host/rerank"),
        ("https://host/rerank?code=SECRET", "https://host/rerank"),
        ("https://host/rerank#SECRET", "https://host/rerank"),
        ("package.module:function", "package.module:function"),
        ("models/key=value@home", "models/key=value@home"),
    ],
)
def test_an_address_is_shown_without_what_may_be_a_key(given: str, shown: str) -> None:
    assert shown_address(given) == shown


def test_an_address_that_is_shown_again_stays_as_it_is() -> None:
    once = shown_address("https://me:SECRET@host/v2/rerank?model=a/long-name-of-a-model&top=5&sig=SECRET")
    assert shown_address(once) == once == "https://host/v2/rerank?model=a/long-name-of-a-model&top=5"


def test_addresses_are_found_however_deep_and_words_about_them_are_left_alone() -> None:
    words = "see https://host/#about, and mail me@host"
    found = shown_values({"about": words, "all": [{"base_url": "https://me:SECRET@host/v1"}, 3, None]})
    assert found == {"about": words, "all": [{"base_url": "https://host/v1"}, 3, None]}
    other = ["HTTPS://me:SECRET@host/v1", "Http://host/v1?api_key=SECRET", "https://me:SEC RET@host/v1"]
    assert "SEC" not in str(shown_values(other))
