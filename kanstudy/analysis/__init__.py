"""What the records mean. No torch.

- `results` reads records, `nodes` says where they ran, `captions` what they rest on, `series` which form a curve;
- `metrics` are the formulas, `statistics` the rounds, their ratios and their intervals;
- `estimates` are the experiments' frames, a row a point as `rows` has it; `steadiness` looks at the rounds behind them;
- `attribution` says where the efficiency goes, `dose_response` whether that is found where it was put in;
- `communication` is what is hidden and what is exposed, `scaling_laws` are fits;
- `controls`, `complementarity` and `operator_speed` compare models and operators, `published` the published study;
- `guidelines` are sentences, `tables` and `plots` show all of it;
- `comparison` puts two results side by side;
- `machine_model` is what a step costs on a machine, `network` what its collectives do;
- `calibration` fits a machine's constants to records, `prediction` says from them what more ranks would do,
  `held_out` scores what was predicted against what was measured afterwards;
- `strategies` compares ways to share the training among ranks, on a machine model;
- `external` is for results that this project did not measure, `simulation` for a machine that is not there.
"""
