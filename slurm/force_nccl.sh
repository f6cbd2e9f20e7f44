#!/bin/bash
# Is communication's share not monotonic over the world sizes because NCCL changes its algorithm or protocol?
# Submits the same points once as NCCL chooses and once for each choice that it is held to, each into a folder of its own:
#   slurm/force_nccl.sh PROFILE FOLDER [further options of kanstudy submit, such as --dry-run or --launches 5]
# Placements (packed, spread) and bucket sizes (bucket_caps_mb) are those of the profile. Called again, it goes on with
# what is left. Afterwards: kanstudy bench nccl FOLDER/*
#
# Only all-reduces are held: DDP also broadcasts, for which NCCL has no tree, and would end. NCCL before 2.24 does not
# know how to tell them apart, and takes another algorithm for broadcasts by itself: NCCL_ONLY= slurm/force_nccl.sh ...
# LL128 is not forced: where NCCL does not enable it by itself (over PCIe), sums may come out wrong.
set -eu
usage="usage: slurm/force_nccl.sh PROFILE FOLDER [further options of kanstudy submit]"
profile=${1:?$usage} folder=${2:?$usage}
shift 2
only=${NCCL_ONLY-allreduce:}

submit() { # NAME [options]
  echo "== $folder/$1"
  kanstudy submit --profile "$profile" --results-dir "$folder/$1" \
    --only strong_scaling --only weak_scaling --only communication_overhead "${@:2}"
}

submit own "$@"
for algorithm in Ring Tree; do
  for protocol in LL Simple; do
    submit "$algorithm-$protocol" --env "NCCL_ALGO=$only$algorithm" --env "NCCL_PROTO=$only$protocol" "$@"
  done
done
