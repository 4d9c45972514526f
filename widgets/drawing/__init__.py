"""What all widgets draw with: lines of styled text, the styles of a theme, bars and sparklines."""
