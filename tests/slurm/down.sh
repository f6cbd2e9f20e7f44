#!/bin/bash
# down.sh FOLDER: stop what up.sh FOLDER started.
shopt -s nullglob
files=("$1"/run/slurmd-*.pid "$1"/run/slurmctld.pid "$1"/munge/pid)
for signal in TERM KILL; do
  for file in "${files[@]}"; do
    [ -s "$file" ] && kill -s "$signal" "$(cat "$file")" 2>/dev/null
  done
  sleep 0.5
done
true
