"""What all benchmarks share: CPU times of processes, medians over rounds, tables, documents with figures, and
the description of the machine and the revision that were measured."""
