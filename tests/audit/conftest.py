"""A small design over the toy world, made once."""

import pytest

from longrank.audit.design import AuditDesign, make_design
from longrank.audit.planted import WordMatch
from longrank.audit.settings import AuditSettings
from longrank.audit.sources import Source, toy_source


@pytest.fixture(scope="session")
def source() -> Source:
    return toy_source(40)


@pytest.fixture(scope="session")
def bag_of_words(source: Source) -> WordMatch:
    return WordMatch.fitted(filler.text for filler in source.filler)


@pytest.fixture(scope="session")
def design(source: Source) -> AuditDesign:
    return make_design(source, AuditSettings(queries=40, slots=5, lengths=(256,), draws=999))


@pytest.fixture(scope="session")
def small(source: Source) -> AuditDesign:
    return make_design(source, AuditSettings(queries=8, slots=3, lengths=(192, 384), draws=199))
