"""What faults are made of: sample tenants that run healthy programs, and the means to harm them, such as
limits of cgroups, a slow network, and a GPU whose figures are invented."""
