"""Does the attribution find what is put in? Known causes at several doses, and where they show."""
