"""Many hosts at once: what each host says about itself every second, and what follows for the fleet. Pure
functions and values."""
