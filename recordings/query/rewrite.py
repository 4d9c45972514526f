"""Rewrites queries over single calls so that they read stored sums wherever the answer is the same.

``views.forms`` explains the three forms of a view of single calls: sums, calls that are alike, single calls.

Some SELECTs only count and add up. Such a SELECT gives the same answer from rows with weights, if its
aggregates use the weights: ``COUNT(*)`` becomes the sum of the weights, and ``AVG(x)`` the weighted mean. If
it is not certain that the answer is the same, the SELECT is rewritten for the next form.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from stalltop.recordings.query.names import AmbiguousNameError, Columns, QueryNames
from stalltop.recordings.query.weighing import AGGREGATES, Weighing, is_aggregate, is_real
from stalltop.recordings.views import catalogue
from stalltop.recordings.views.forms import Form, Need
from stalltop.recordings.views.sums import sums_of

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # This module reports parse errors itself.

_OF_WINDOW = (*catalogue.OF_WINDOW, *catalogue.PER_CALL)
"""Columns that sums over all windows do not have."""

_TYPE = re.compile(r"\bas\s+(?:int|integer|bigint|real|double|float|text|varchar|char|blob)\b")
_MOD = re.compile(r"\bmod\s*\(")


@dataclass(slots=True)
class Plan:
    """The SQL to run, and the views that it needs."""

    sql: str
    needs: list[Need] = field(default_factory=list)


def planned(sql: str, columns: Columns, *, least: Form = Form.SUMS, maxima: bool = True) -> Plan:
    """Return the plan for ``sql``. ``least`` is the first form to try. ``maxima`` says whether the longest
    call of each sum is known."""
    try:
        tree = sqlglot.parse_one(sql, dialect="sqlite")
    except (SqlglotError, RecursionError):
        return unread(sql)
    if not _is_written_alike(tree, sql):
        return unread(sql)
    needs: list[Need] = []
    names = QueryNames(tree, columns)
    named = sum(names.is_events(table) for table in tree.find_all(exp.Table))
    try:
        for select in list(tree.find_all(exp.Select)):
            needs += _SelectRewriter(select, names).rewritten(len(needs), least, maxima)
    except AmbiguousNameError:
        return unread(sql)
    if len(needs) != named:  # A view of single calls is named in a place where it cannot be rewritten.
        return unread(sql)
    return Plan(tree.sql(dialect="sqlite") if needs else sql, needs)


def _is_written_alike(tree: exp.Expr, sql: str) -> bool:
    """Return whether the SQL that sqlglot writes for ``tree`` means the same to SQLite as ``sql``. sqlglot
    changes some types of casts. It also writes the function mod() as the operator %, although mod() returns a
    real number and % does not."""
    small = sql.lower()
    casts = sum(1 for _ in tree.find_all(exp.Cast))
    return len(_TYPE.findall(small)) >= casts and not (_MOD.search(small) and tree.find(exp.Mod))


def unread(sql: str) -> Plan:
    """Return a plan that runs ``sql`` unchanged. All views of calls that ``sql`` names are made with single
    calls."""
    small = sql.lower()
    named = [name for name in catalogue.EVENTS if name in small]
    return Plan(sql, [Need(name, Form.SINGLE, True, True, name) for name in named])


class _SelectRewriter:
    """Rewrites one SELECT."""

    def __init__(self, select: exp.Select, names: QueryNames) -> None:
        self._select = select
        self._names = names

    def rewritten(self, number: int, least: Form, maxima: bool) -> list[Need]:
        """Replace each view of single calls in the SELECT by the name of another view. Return these views,
        with the form that each needs. ``number`` is the first number that is free for new names."""
        needs: list[Need] = []
        events = [
            (alias, source)
            for alias, source in self._names.sources(self._select)
            if isinstance(source, exp.Table) and self._names.is_events(source)
        ]
        for alias, table in events:
            need = Need(table.name.lower(), Form.SINGLE, True, True, f"~events_{number + len(needs)}")
            if len(events) == 1:
                self._choose(need, alias, table, least, maxima)
            if need.form is Form.SUMS:
                need.name = sums_of(need.events, kernels=need.kernels, windows=need.windows)
            _rename(table, need.name)
            needs.append(need)
        return needs

    def _choose(self, need: Need, alias: str, table: exp.Table, least: Form, maxima: bool) -> None:
        try:
            mine = self._names.columns_of(self._select, alias)
            used = {column.name.lower() for column in mine} | self._shared()
            need.kernels = bool(self._stars()) or "kernel_name" in used
            need.windows = bool(self._stars()) or not used.isdisjoint(_OF_WINDOW)
            self._refuse(table, mine)
            need.most = self._limit()
            first = self._narrow(need, alias, table)
            need.form, need.longest = self._weigh(alias, mine, least, maxima)
        except AmbiguousNameError:
            return
        if need.form is not Form.SUMS and need.windows and not self._stars():
            self._forget_windows(need, alias, mine, first)

    def _forget_windows(self, need: Need, alias: str, mine: list[exp.Column], first: list[exp.Expr]) -> None:
        """Remove conditions on windows from the SELECT, if ``need.rows`` already applies them and the SELECT
        does not use columns of windows elsewhere."""
        own = [one for one in first if self._is_of(one, alias)]
        asked = {id(column) for one in own for column in one.find_all(exp.Column)}
        others = {column.name.lower() for column in mine if id(column) not in asked} | self._shared()
        if not others.isdisjoint(_OF_WINDOW):
            return
        need.windows = False
        for one in own:
            one.replace(exp.Literal.number(1))

    def _shared(self) -> set[str]:
        """Return the columns in the USING clauses of the SELECT's joins."""
        joins = self._select.args.get("joins") or ()
        return {column.name.lower() for join in joins for column in join.args.get("using") or ()}

    def _refuse(self, table: exp.Table, mine: list[exp.Column]) -> None:
        """Raise AmbiguousNameError if the SELECT uses ``table`` in a way that needs single calls."""
        if not self._shared().isdisjoint((*catalogue.PER_CALL, *catalogue.SUMS)):
            raise AmbiguousNameError
        for column in mine:
            aggregate = column.find_ancestor(exp.Select, *AGGREGATES)
            while aggregate is not None and not isinstance(aggregate, exp.Select):
                if is_aggregate(aggregate) and aggregate.find_ancestor(exp.Select) is not self._select:
                    # If an aggregate is in a subquery, it may belong to this SELECT, because its argument
                    # does.
                    raise AmbiguousNameError
                aggregate = aggregate.find_ancestor(exp.Select, *AGGREGATES)
        for join in self._select.args.get("joins") or ():
            side = str(join.args.get("side") or "").upper()
            nullable = side in ("RIGHT", "FULL") or (side == "LEFT" and join.this is table)
            if nullable or join.args.get("method"):
                raise AmbiguousNameError

    def _weigh(self, alias: str, mine: list[exp.Column], least: Form, maxima: bool) -> tuple[Form, bool]:
        """Rewrite all aggregates for the first form that allows it (``Weighing``). Return this form, and
        whether an aggregate uses the longest call of each sum."""
        aggregates = self._aggregates()
        counts = bool(aggregates) or self._select.args.get("group") is not None
        some = any(True for _ in self._own(exp.Window))  # a window function needs single calls
        if some or self._stars() or not (counts or self._select.args.get("distinct")):
            return Form.SINGLE, False
        for form in (Form.SUMS, Form.ALIKE):
            weighing = Weighing(alias, mine, sums=form is Form.SUMS, maxima=maxima)
            weighed = [weighing.weighed(node) for node in aggregates]
            inside = {id(column) for node in aggregates for column in _whole(node).find_all(exp.Column)}
            outside = [column for column in mine if id(column) not in inside]
            if form < least or None in weighed or not all(map(weighing.is_known, outside)):
                continue
            for node, new in zip(aggregates, weighed, strict=True):
                assert new is not None
                _whole(node).replace(new)
            return form, weighing.longest
        return Form.SINGLE, False

    def _limit(self) -> int | None:
        """Return LIMIT plus OFFSET: the SELECT can use at most this many calls. Return None if it has no
        LIMIT, if LIMIT or OFFSET is not an integer literal, or if the SELECT uses all calls in spite of the
        LIMIT (DISTINCT, GROUP BY, aggregates, window functions)."""
        if self._select.args.get("distinct") or any(True for _ in self._own(exp.Window)):
            return None
        if self._aggregates() or self._select.args.get("group"):
            return None
        most = 0
        for name in ("limit", "offset"):
            node = self._select.args.get(name)
            if node is None and name == "offset":
                continue
            value = node.expression if node is not None else None
            if not isinstance(value, exp.Literal) or not value.is_int:
                return None
            most += int(value.this)
        return most

    def _narrow(self, need: Need, alias: str, table: exp.Table) -> list[exp.Expr]:
        """Set ``need.rows`` to a query for those rows of ``counts`` that can affect the result. Return the
        conditions of WHERE that this query applies; [] if it applies none."""
        start, joins = self._select.args.get("from_"), self._select.args.get("joins") or []
        if start is None:
            return []
        sources = [start.this, *(join.this for join in joins)]
        for source in sources:
            if source is not table and not (isinstance(source, exp.Table) and self._names.is_plain(source)):
                return []
        for join in joins:
            on = join.args.get("on")
            if on is not None and not self._may_go_first(on, alias):
                return []
        where = self._select.args.get("where")
        whole = where.this if where is not None else None
        parts = list(whole.flatten()) if isinstance(whole, exp.And) else [whole] if whole else []
        first = [part for part in parts if self._may_go_first(part, alias)]
        longest = need.most is not None and len(first) == len(parts) and self._is_longest_first(alias)
        if first or longest:
            rows = self._select_rows(alias, sources.index(table), first)
            need.rows = _of_longest(rows, need.most or 0) if longest else rows
        return first

    def _select_rows(self, alias: str, at: int, conditions: list[exp.Expr]) -> str:
        """Return a query for the rows of ``counts`` that meet ``conditions``. ``at`` is the index, among the
        sources, of the view of calls."""
        names = {
            "window_id": "window_id",
            "place": catalogue.PLACE,
            "longest": catalogue.LONGEST["duration_ns"],
        }
        rows = exp.select(*(_column(alias, column).as_(name) for name, column in names.items()))
        rows.set("from_", self._select.args["from_"].copy())
        rows.set("joins", [join.copy() for join in self._select.args.get("joins") or []])
        sources = [rows.args["from_"].this, *(join.this for join in rows.args["joins"])]
        events = sources[at].name.lower()
        _rename(sources[at], sums_of(events, kernels=False, windows=True))
        if conditions:
            rows = rows.where(*(one.copy() for one in conditions))
        return rows.sql(dialect="sqlite")

    def _is_longest_first(self, alias: str) -> bool:
        """Return whether ORDER BY begins with the duration, descending. If so, some rows are not needed:
        those whose longest call is shorter than all calls within the LIMIT."""
        order = self._select.args.get("order")
        first = order.expressions[0] if order is not None else None
        if first is None or not first.args.get("desc"):
            return False
        by = first.this
        results = self._select.expressions
        if isinstance(by, exp.Literal) and by.is_int and 1 <= int(by.this) <= len(results):
            by = results[int(by.this) - 1].unalias()
        elif isinstance(by, exp.Column) and not by.table:
            named = {one.alias.lower(): one.unalias() for one in results if isinstance(one, exp.Alias)}
            by = named.get(by.name.lower(), by)
        if isinstance(by, exp.Div) and isinstance(by.right, exp.Literal) and is_real(by.right):
            by = by.left
        if not isinstance(by, exp.Column) or by.name.lower() not in catalogue.LONGEST:
            return False
        return self._names.owner(by) == (self._select, alias)

    def _is_of(self, condition: exp.Expr, alias: str) -> bool:
        """Return whether ``condition`` uses only columns of the source ``alias``."""
        owners = map(self._names.owner, condition.find_all(exp.Column))
        return all(owner == (self._select, alias) for owner in owners)

    def _may_go_first(self, condition: exp.Expr, alias: str) -> bool:
        """Return whether ``condition`` can be evaluated before this SELECT, on sums in which CUDA kernels are
        not distinguished."""
        if condition.find(exp.Query) is not None:
            return False
        for column in condition.find_all(exp.Column):
            owner = self._names.owner(column)
            if owner is None or owner[0] is not self._select:
                return False
            if owner[1] == alias and column.name.lower() in (
                *catalogue.PER_CALL,
                *catalogue.SUMS,
                "kernel_name",
            ):
                return False
        return True

    def _own(self, *kinds: type[exp.Func | exp.Star | exp.Window]) -> Iterator[exp.Expr]:
        """Yield those nodes of this SELECT that are of the given ``kinds``. Nodes in its subqueries are left
        out."""
        return (
            node for node in self._select.find_all(*kinds) if node.find_ancestor(exp.Select) is self._select
        )

    def _aggregates(self) -> list[exp.Expr]:
        return [node for node in self._own(exp.Func) if is_aggregate(node)]

    def _stars(self) -> list[exp.Expr]:
        return [node for node in self._own(exp.Star) if not isinstance(node.parent, exp.Count)]


def _of_longest(rows: str, most: int) -> str:
    """Return a query that selects some rows of ``rows``, which is itself a query: the rows whose longest call
    may be among the ``most`` longest calls of all."""
    least = f"SELECT min(longest) FROM (SELECT longest FROM ({rows}) ORDER BY 1 DESC LIMIT {most})"
    return f"SELECT window_id, place FROM ({rows}) WHERE longest >= ({least})"


def _whole(aggregate: exp.Expr) -> exp.Expr:
    """Return the FILTER node around ``aggregate``, or ``aggregate`` itself if it has no FILTER."""
    return aggregate.parent if isinstance(aggregate.parent, exp.Filter) else aggregate


def _rename(table: exp.Table, name: str) -> None:
    """Replace the name of ``table`` by ``name``, a name in the temporary schema. The former name becomes the
    alias of the table, unless it already has an alias."""
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("db", exp.to_identifier("temp"))
    table.set("this", exp.to_identifier(name, quoted=True))


def _column(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(table, quoted=True))
