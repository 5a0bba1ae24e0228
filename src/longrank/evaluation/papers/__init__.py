"""The papers' printed results as data, their arithmetic checked, and your results beside them."""

from longrank.evaluation.papers.beside import Beside, beside
from longrank.evaluation.papers.checks import (
    Disagreement,
    GainCheck,
    Misprint,
    disagreements,
    gain_checks,
    gain_interval,
    misprints,
)
from longrank.evaluation.papers.tables import (
    Cell,
    Claim,
    Column,
    Interval,
    PaperTable,
    Place,
    Printed,
    Row,
    Statement,
    paper_claims,
    paper_statements,
    paper_table,
    paper_tables,
)

__all__ = [
    "Beside",
    "Cell",
    "Claim",
    "Column",
    "Disagreement",
    "GainCheck",
    "Interval",
    "Misprint",
    "PaperTable",
    "Place",
    "Printed",
    "Row",
    "Statement",
    "beside",
    "disagreements",
    "gain_checks",
    "gain_interval",
    "misprints",
    "paper_claims",
    "paper_statements",
    "paper_table",
    "paper_tables",
]
