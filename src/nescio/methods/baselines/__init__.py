"""The methods that evidential ones are compared with."""
