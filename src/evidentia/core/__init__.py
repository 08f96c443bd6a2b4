"""Pure tensor maths of opinions; torch only."""
