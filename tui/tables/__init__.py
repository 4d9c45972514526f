"""The tables of the main screen: their content, their sizes, and the steps from one view to another."""
