"""What the commands of a fleet share."""
