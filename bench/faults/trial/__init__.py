"""One trial: injects a fault while a monitor watches, and judges whether the diagnosis found it. Trials of
healthy tenants count false alarms."""
