"""The data that a study trains on: each source gives rows, one file of them is prepared for all ranks to map."""
