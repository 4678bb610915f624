"""Measurements of Assay's own speed. They are run by hand: no test waits on a stopwatch."""
