"""The command line ``stalltop``."""
