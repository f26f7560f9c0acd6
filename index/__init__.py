"""softdict: a dictionary that answers by meaning.

>>> from index import SoftDict
>>> prices = SoftDict({"méxico": 7, "alemania": 10, "inglaterra": 8, "perro": 5})
>>> prices["méxico"]
7
>>> round(prices.search("país").value, 2)
8.54

What is refused is a ``SoftDictError``; ``index.errors`` has them all.
"""

# ruff: noqa: E402 (NumPy reads the setting as it is imported)

from index.platform import brief_waits

brief_waits()

from index.answers import (
    Answer,
    Blend,
    Column,
    Comparison,
    Description,
    Entry,
    ExactAnswer,
    LabelBlend,
    LoadReport,
    ManualAnswer,
    Match,
    NumberBlend,
    Progress,
    Value,
    VectorBlend,
)
from index.catalog import Catalog
from index.encoders import Encoder, open_encoder
from index.errors import SoftDictError
from index.loading import LoadOptions
from index.softdict import SoftDict

__all__ = [
    "Answer",
    "Blend",
    "Catalog",
    "Column",
    "Comparison",
    "Description",
    "Encoder",
    "Entry",
    "ExactAnswer",
    "LabelBlend",
    "LoadOptions",
    "LoadReport",
    "ManualAnswer",
    "Match",
    "NumberBlend",
    "Progress",
    "SoftDict",
    "SoftDictError",
    "Value",
    "VectorBlend",
    "open_encoder",
]
__version__ = "0.2.0.dev0"
