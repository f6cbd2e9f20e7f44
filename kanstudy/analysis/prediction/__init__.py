"""What more ranks would do: constants fitted to a calibration, and predictions from them, with bands."""
