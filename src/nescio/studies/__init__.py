"""Studies: experiments that can be repeated, with their results, figures and reports."""
