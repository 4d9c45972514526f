"""The building blocks of faults: sample tenants that run healthy programs, and ways to harm them, such as
limits of cgroups, a slow network, and a GPU whose figures are invented."""
