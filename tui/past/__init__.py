"""The moment that the screen shows: now, or one of the past, reached by steps, jumps or playing."""
