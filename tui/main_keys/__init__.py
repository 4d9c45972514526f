"""What the keys of the main screen do: one class for each subject, and the screen with all of them."""
