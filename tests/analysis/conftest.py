"""What the tests of the analysis share: `fabricate` and `frames` beside this file, which puts them on the path."""
