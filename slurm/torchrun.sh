#!/bin/bash
# Measures a run folder on several machines without Slurm. On each of them, within some minutes:
#   slurm/torchrun.sh RUN K ADDRESS [PORT]
# RUN is what `kanstudy submit --profile P --by-hand` wrote, on storage that all machines share. K counts the machines
# from 0; ADDRESS is that of machine 0, as the others reach it. Started again, it goes on with what is missing.
set -eu
usage="usage: slurm/torchrun.sh RUN K ADDRESS [PORT], where RUN is a folder that kanstudy submit --by-hand wrote"
run=${1:?$usage} machine=${2:?$usage} address=${3:?$usage} port=${4:-29500}

set +u # modules and virtual environments are not written for it
# shellcheck source=/dev/null
. "$run/setup.sh"
# shellcheck source=/dev/null
. "$run/environment.sh"
set -u

# Ranks in blocks: machine 0 has the first ones. Without a rendezvous, which would number the machines as they come.
for plan in "$run"/plans/*.json; do
  "$KANSTUDY_PYTHON" -m torch.distributed.run --nnodes="$KANSTUDY_MACHINES" --nproc-per-node="$KANSTUDY_RANKS" \
    --node-rank="$machine" --master-addr="$address" --master-port="$port" --max-restarts=0 \
    --log-dir="${plan%.json}.logs/$machine" --redirects=3 -m kanstudy.worker "$plan"
done
