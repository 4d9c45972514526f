"""Resolves the names in a query as SQLite does: finds out which column belongs to which table."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlglot import exp

from stalltop.recordings.views import catalogue

Columns = Callable[[str, str], Collection[str] | None]
"""A function of a schema and a table. It returns the names of the table's columns in lower case; None if
there is no such table."""


class AmbiguousNameError(Exception):
    """A name in a query cannot be resolved with certainty."""


class QueryNames:
    """Finds out to which table or subquery each name in one query refers."""

    def __init__(self, tree: exp.Expr, columns: Columns) -> None:
        self._columns = columns
        self._with = {cte.alias.lower(): cte for cte in tree.find_all(exp.CTE)}

    def is_plain(self, table: exp.Table) -> bool:
        """Return whether ``table`` is neither a view of single calls nor a common table expression."""
        return not self._is_made(table) and table.name.lower() not in catalogue.EVENTS

    def is_events(self, table: exp.Table) -> bool:
        """Return whether ``table`` is a view of single calls."""
        schema = table.db.lower()
        return table.name.lower() in catalogue.EVENTS and schema in ("", "temp") and not self._is_made(table)

    def _is_made(self, table: exp.Table) -> bool:
        return not table.db and table.name.lower() in self._with

    def sources(self, select: exp.Select) -> list[tuple[str, exp.Expr]]:
        """Return, by alias, the sources in FROM and JOIN. Raises AmbiguousNameError if a source is neither a
        table nor a subquery."""
        start = select.args.get("from_")
        found = [] if start is None else [start.this]
        found += [join.this for join in select.args.get("joins") or ()]
        for source in found:
            if not isinstance(source, (exp.Table, exp.Subquery)) or source.args.get("joins"):
                raise AmbiguousNameError
        return [(source.alias_or_name, source) for source in found]

    def columns_of(self, select: exp.Select, alias: str) -> list[exp.Column]:
        """Return all columns that refer to the source ``alias``, in ``select`` and in its subqueries."""
        found = []
        for column in select.find_all(exp.Column):
            if isinstance(column.this, exp.Star):
                continue
            owner = self.owner(column)
            if owner is not None and owner[0] is select and owner[1] == alias:
                found.append(column)
        return found

    def owner(self, column: exp.Column) -> tuple[exp.Select, str] | None:
        """Return the SELECT of the source to which ``column`` belongs, and the alias of this source. Return
        None if ``column`` refers to an alias of the select list, or belongs to no source. Raises
        AmbiguousNameError if the columns of a source are not known."""
        if _names_result(column):
            return None
        select = column.find_ancestor(exp.Select)
        while select is not None:
            for alias, source in self.sources(select):
                if column.table:
                    if column.table.lower() == alias.lower():
                        return select, alias
                    continue
                names = self._names(source)
                if names is None:
                    raise AmbiguousNameError
                if column.name.lower() in names:
                    return select, alias
            select = select.find_ancestor(exp.Select)
        return None

    def _names(self, source: exp.Expr) -> Collection[str] | None:
        """Return the names of the columns of a source; None if they are not known."""
        if isinstance(source, exp.Table):
            if not self._is_made(source):
                return self._columns(source.db.lower(), source.name.lower())
            source = self._with[source.name.lower()]
        alias = source.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            return {column.name.lower() for column in alias.args["columns"]}
        names = source.this.named_selects if isinstance(source.this, exp.Query) else ["*"]
        return None if "*" in names else {name.lower() for name in names}


def _names_result(column: exp.Column) -> bool:
    """Return whether ``column`` is a term of ORDER BY that refers to an alias of the select list. In ORDER
    BY, such an alias takes precedence over a table column of the same name."""
    if column.table or not isinstance(column.parent, exp.Ordered):
        return False
    order = column.parent.parent
    query = order.parent if order is not None else None
    if not isinstance(query, exp.Select):
        return isinstance(query, exp.Query)
    return column.name.lower() in {
        item.alias.lower() for item in query.expressions if isinstance(item, exp.Alias)
    }
