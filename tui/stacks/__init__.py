"""The page that shows in which lines of code the threads of processes spend their time."""
