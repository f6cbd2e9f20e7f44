#!/bin/bash
# down.sh FOLDER: stop what up.sh FOLDER started, jobs first.
shopt -s nullglob
export SLURM_CONF=$1/slurm.conf
if [ -s "$1/run/slurmctld.pid" ] && kill -0 "$(cat "$1/run/slurmctld.pid")" 2>/dev/null; then
  timeout 10 scancel --user="$(id -un)" 2>/dev/null
  for _ in $(seq 40); do
    [ -z "$(timeout 10 squeue -h 2>/dev/null)" ] && break
    sleep 0.25
  done
fi
files=("$1"/run/slurmd-*.pid "$1"/run/slurmctld.pid "$1"/munge/pid)
for signal in TERM KILL; do
  for file in "${files[@]}"; do
    [ -s "$file" ] && kill -s "$signal" "$(cat "$file")" 2>/dev/null
  done
  sleep 0.5
done
true
