"""``where``: a condition on an entry's columns, applied before softmax.

In text and as JSON, which mean the same:

    country = "ES"                      {"country": "ES"}
    tag != a                            {"tag": {"ne": "a"}}
    1 <= price < 10                     {"price": {"gte": 1, "lt": 10}}
    tag in (a, "b c")                   {"tag": {"in": ["a", "b c"]}}
    tag is missing                      {"tag": null}, {"tag": {"missing": true}}
    tag is not missing                  {"tag": {"missing": false}}
    price > 5 and country = "ES"        {"price": {"gt": 5}, "country": "ES"}, {"and": […]}
    not (price > 5 or tag = a)          {"not": {"or": [{"price": {"gt": 5}}, {"tag": "a"}]}}

``not`` binds tighter than ``and``, and ``and`` tighter than ``or``. Text stands in double or single
quotes, a quote inside it twice; a simple word needs none. A column whose name is no simple word
stands in brackets: [precio de venta]. Numbers have an order; labels are equal or not, to the
letter; of a vector one can only ask whether it is missing.

A condition is true or false of every entry, never unknown. Where a value is missing, every
comparison with it is false, and so its ``not`` is true. ``!=`` is ``not … =``: ``tag != a`` holds
where the tag is missing, too.

    conditions   what a condition is, and its mask over a snapshot
    building     conditions from checked parts; all faults at once
    text         the readable form, parsed by lark
    document     the JSON form
    parsing      a condition in either form
"""

from __future__ import annotations

from index.where.conditions import Among, And, Compare, Missing, Not, Or, Where, where_mask
from index.where.parsing import parse_where

__all__ = ["Among", "And", "Compare", "Missing", "Not", "Or", "Where", "parse_where", "where_mask"]
