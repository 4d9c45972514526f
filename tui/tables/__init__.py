"""The tables of the main screen: rows grouped, sorted and unfolded; columns chosen; two rows compared."""
