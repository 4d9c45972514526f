"""Rewrites aggregates over single calls as aggregates over rows that each stand for several calls.

A row of sums has a weight (its number of calls), the sums of some columns, and the maxima of others. A
condition on a single call, such as on its duration, cannot be evaluated on such a row. A row of calls that
are alike has a weight, and the values of all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from stalltop.recordings.views import catalogue

_AGGREGATES: Final = frozenset(
    (
        *(
            "avg",
            "count",
            "group_concat",
            "hmerge",
            "json_group_array",
            "json_group_object",
            "jsonb_group_array",
        ),
        *("jsonb_group_object", "max", "median", "min", "percentile", "percentile_cont", "percentile_disc"),
        *("string_agg", "sum", "total"),
    )
)
_REAL_TYPES: Final = (exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT)


AGGREGATES: Final = (exp.AggFunc, exp.Anonymous)
"""Classes of nodes that may be aggregates."""


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether ``node`` calls an aggregate function of SQLite or of the module ``functions``."""
    if isinstance(node, exp.AggFunc):
        return True
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in _AGGREGATES


class Weighing:
    """Rewrites the aggregates of one SELECT."""

    def __init__(self, alias: str, mine: Sequence[exp.Column], *, sums: bool, maxima: bool) -> None:
        """``alias`` is the view of calls, and ``mine`` are its columns in the SELECT. ``sums`` says whether a
        row is a sum. ``maxima`` says whether the longest call of each sum is known."""
        self._alias = alias
        self._mine = {id(column) for column in mine}
        self._sums = catalogue.SUMS if sums else {}
        self._unknown = frozenset((*catalogue.PER_CALL, *catalogue.SUMS) if sums else ())
        self._maxima = maxima
        self.longest = False
        """Whether an aggregate uses the longest call of each sum."""

    def is_known(self, node: exp.Expr) -> bool:
        """Return whether ``node`` has the same value for all calls of a row."""
        return not any(
            id(column) in self._mine and column.name.lower() in self._unknown
            for column in node.find_all(exp.Column)
        )

    def weighed(self, node: exp.Expr) -> exp.Expr | None:
        """Return the expression that replaces the aggregate ``node``, with its FILTER. Return None if the
        result cannot be computed from rows that stand for several calls."""
        condition = None
        if isinstance(node.parent, exp.Filter):
            condition = node.parent.expression
            if not self.is_known(condition):
                return None

        def aggregate(name: str, of: exp.Expr) -> exp.Expr:
            made = exp.Anonymous(this=name, expressions=[of])
            return made if condition is None else exp.Filter(this=made, expression=condition.copy())

        if isinstance(node, exp.Count):
            return self._count(node, aggregate)
        if isinstance(node.this, exp.Distinct) or isinstance(node, (exp.Max, exp.Min)):
            return self._extreme(node, aggregate)
        if isinstance(node, (exp.Sum, exp.Avg)) and _is_simple(node):
            sum_ = self._sum(node.this)
            if sum_ is None:
                return None
            total = aggregate("SUM", sum_)
            if isinstance(node, exp.Sum):
                return total
            divisor = aggregate("SUM", self._weight_where_known(node.this))
            return exp.paren(exp.Div(this=exp.Mul(this=total, expression=_real("1.0")), expression=divisor))
        if (
            isinstance(node, exp.Anonymous)
            and str(node.this).lower() == "total"
            and len(node.expressions) == 1
        ):
            sum_ = self._sum(node.expressions[0])
            return None if sum_ is None else aggregate("TOTAL", sum_)
        return None

    def _count(self, node: exp.Count, aggregate: Callable[[str, exp.Expr], exp.Expr]) -> exp.Expr | None:
        counted = node.this
        if isinstance(counted, exp.Distinct):
            return self._extreme(node, aggregate)
        if node.expressions:
            return None
        if counted is None or isinstance(counted, exp.Star):
            weight: exp.Expr = self._weight()
        elif self._sum(counted) is None:
            return None  # ``counted`` may be NULL for some calls of a row, and not for others.
        else:
            weight = self._weight_where_known(counted)
        return exp.Coalesce(this=aggregate("SUM", weight), expressions=[exp.Literal.number(0)])

    def _extreme(self, node: exp.Expr, aggregate: Callable[[str, exp.Expr], exp.Expr]) -> exp.Expr | None:
        """Return the expression that replaces ``node``: an aggregate whose result does not depend on how
        often a value occurs, such as MIN, MAX or COUNT(DISTINCT). Return None if the result cannot be
        computed from rows that stand for several calls."""
        if self.is_known(node):
            whole = node.parent if isinstance(node.parent, exp.Filter) else node
            return whole.copy() if whole is not None else None
        if isinstance(node, exp.Max) and self._maxima and _is_simple(node):
            rising = self._maximum(node.this)
            if rising is not None:
                self.longest = True
                return aggregate("MAX", rising)
        return None

    def _sum(self, node: exp.Expr) -> exp.Expr | None:
        """Return an expression for the sum of ``node`` over the calls of a row; None if this sum is not
        stored."""
        if self.is_known(node):
            return exp.Mul(this=exp.paren(node.copy()), expression=self._weight())
        if isinstance(node, exp.Column):
            return self._other(self._sums.get(node.name.lower()))
        if isinstance(node, (exp.Paren, exp.Neg)):
            return _with(node, self._sum(node.this))
        if isinstance(node, exp.Cast) and node.to.this in _REAL_TYPES:
            return _with(node, self._sum(node.this))
        if isinstance(node, (exp.Add, exp.Sub)):
            left, right = self._sum(node.left), self._sum(node.right)
            return None if left is None or right is None else type(node)(this=left, expression=right)
        if isinstance(node, exp.Mul) and self.is_known(node.left):
            return _with(node, node.left.copy(), self._sum(node.right))
        if isinstance(node, exp.Mul) and self.is_known(node.right):
            return _with(node, self._sum(node.left), node.right.copy())
        if (
            isinstance(node, exp.Div)
            and self.is_known(node.right)
            and (is_real(node.left) or is_real(node.right))
        ):
            return _with(node, self._sum(node.left), node.right.copy())
        return self._branches(node, self._sum)

    def _maximum(self, node: exp.Expr) -> exp.Expr | None:
        """Return an expression for the maximum of ``node`` over the calls of a row. Return None if ``node``
        may differ between these calls and is not known to rise with the duration."""
        if self.is_known(node):
            return node.copy()
        if isinstance(node, exp.Column):
            return self._other(catalogue.LONGEST.get(node.name.lower()))
        if isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and node.to.this in _REAL_TYPES):
            return _with(node, self._maximum(node.this))
        if (
            isinstance(node, (exp.Mul, exp.Div))
            and isinstance(node.right, exp.Literal)
            and not node.right.is_string
        ):
            return _with(node, self._maximum(node.left), node.right.copy())
        if isinstance(node, exp.Mul) and isinstance(node.left, exp.Literal) and not node.left.is_string:
            return _with(node, node.left.copy(), self._maximum(node.right))
        return self._branches(node, self._maximum)

    def _branches(self, node: exp.Expr, of: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr | None:
        """Return ``node``, a CASE or IIF, with each of its results replaced by what ``of`` returns for it.
        Return None in three cases: a condition may differ between calls of a row; ``of`` returns None;
        ``node`` is neither a CASE nor an IIF."""
        if isinstance(node, exp.Case):
            ifs, subject = node.args["ifs"], node.this
        elif isinstance(node, exp.If):
            ifs, subject = [node], None
        else:
            return None
        if not all(self.is_known(part) for part in (subject, *(one.this for one in ifs)) if part is not None):
            return None
        otherwise = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
        results = [of(one.args["true"]) for one in ifs]
        last = of(otherwise) if otherwise is not None else None
        if None in results or (otherwise is not None and last is None):
            return None
        branches = [
            exp.If(this=one.this.copy(), true=result) for one, result in zip(ifs, results, strict=True)
        ]
        return exp.Case(this=subject.copy() if subject is not None else None, ifs=branches, default=last)

    def _weight_where_known(self, node: exp.Expr) -> exp.Expr:
        """Return an expression that is the weight of a row if ``node`` is not NULL, and NULL otherwise."""
        if isinstance(node, exp.Literal) or (isinstance(node, exp.Column) and not self.is_known(node)):
            return self._weight()
        # Columns of which only the sum is known are never NULL, so any number can stand in their place.
        tested = node.copy()
        stand_ins = [
            new
            for old, new in zip(node.find_all(exp.Column), tested.find_all(exp.Column), strict=True)
            if not self.is_known(old)
        ]
        for column in stand_ins:
            column.replace(_real("1.0"))
        known = exp.Not(this=exp.Is(this=exp.paren(tested), expression=exp.Null()))
        return exp.Case(ifs=[exp.If(this=known, true=self._weight())])

    def _weight(self) -> exp.Column:
        return self._column(catalogue.WEIGHT)

    def _other(self, name: str | None) -> exp.Column | None:
        return None if name is None else self._column(name)

    def _column(self, name: str) -> exp.Column:
        return exp.column(
            exp.to_identifier(name, quoted=True), table=exp.to_identifier(self._alias, quoted=True)
        )


def _is_simple(node: exp.Expr) -> bool:
    """Return whether an aggregate has exactly one argument, and neither DISTINCT nor ORDER BY."""
    return (
        node.this is not None
        and not node.expressions
        and not isinstance(node.this, (exp.Order, exp.Distinct))
    )


def _with(node: exp.Expr, *operands: exp.Expr | None) -> exp.Expr | None:
    """Return ``node`` with other operands; None if one of the operands is None."""
    made = node.copy()
    for name, operand in zip(("this", "expression"), operands, strict=False):
        if operand is None:
            return None
        made.set(name, operand if len(operands) == 1 else exp.paren(operand))
    return made


def _real(text: str) -> exp.Literal:
    return exp.Literal(this=text, is_string=False)


def is_real(node: exp.Expr) -> bool:
    """Return whether the value of ``node`` is certainly a real number to SQLite. Then a division by it is no
    integer division."""
    if isinstance(node, exp.Literal):
        return not node.is_string and any(sign in node.this.lower() for sign in ".e")
    if isinstance(node, (exp.Paren, exp.Neg)):
        return is_real(node.this)
    if isinstance(node, exp.Cast):
        return node.to.this in _REAL_TYPES
    if isinstance(node, (exp.Mul, exp.Add, exp.Sub, exp.Div)):
        return is_real(node.left) or is_real(node.right)
    return False
