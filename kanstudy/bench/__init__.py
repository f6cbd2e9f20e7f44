"""What a KAN layer costs: training steps timed side by side, peak memory, and the accuracy of the basis.

Each module measures one thing in one process; `kanstudy.study.bench` starts the processes and keeps the record.
"""
