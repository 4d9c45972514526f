"""The tables of the main screen: they group, sort and unfold rows, choose columns, and compare two rows."""
