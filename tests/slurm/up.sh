#!/bin/bash
# up.sh FOLDER [NODES] [GPUS]: a throw-away Slurm on this machine, one slurmctld and NODES slurmd with GPUS fake GPUs
# each. Needs root, Debian's slurm-wlm and munge. Then: export SLURM_CONF=FOLDER/slurm.conf. down.sh FOLDER stops it.
# NODE names the nodes (node: node1, node2, ...). With OWNER=PID it also stops when that process has ended.
set -euo pipefail
folder=$1 nodes=${2:-2} gpus=${3:-2} name=${NODE:-node} host=$(hostname -s)
port=$((21000 + $$ % 11000)) # below the ports that outgoing connections take
mkdir -p "$folder"/{state,log,run,dev,munge}
chmod 755 "$folder"
chmod 700 "$folder/munge"
dd if=/dev/urandom of="$folder/munge/key" bs=1 count=1024 status=none
chmod 400 "$folder/munge/key"
/usr/sbin/munged --force --key-file="$folder/munge/key" --socket="$folder/run/munge.sock" \
  --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"

cat >"$folder/slurm.conf" <<CONF
ClusterName=sandbox
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.sock
CredType=cred/munge
SlurmctldPort=$port
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
SlurmdSpoolDir=$folder/spool/%n
StateSaveLocation=$folder/state
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
ReturnToService=2
JobRequeue=1
KillWait=5
MinJobAge=${MIN_JOB_AGE:-300}
SlurmdTimeout=${NODE_TIMEOUT:-60}
InactiveLimit=0
SlurmdParameters=config_overrides
GresTypes=gpu
CONF
for node in $(seq "$nodes"); do
  mkdir -p "$folder/spool/$name$node"
  echo "NodeName=$name$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + node)) CPUs=4 Boards=1" \
    "SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:a100:$gpus" >>"$folder/slurm.conf"
done
cat >>"$folder/slurm.conf" <<CONF
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=ALL Default=NO MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
CONF
for gpu in $(seq 0 $((gpus - 1))); do # a GPU must be a character device: copies of /dev/null
  mknod "$folder/dev/nvidia$gpu" c 1 3
done
echo "Name=gpu Type=a100 File=$folder/dev/nvidia[0-$((gpus - 1))]" >"$folder/gres.conf"
echo "CgroupPlugin=cgroup/v1" >"$folder/cgroup.conf"

export SLURM_CONF=$folder/slurm.conf
/usr/sbin/slurmctld -c -f "$SLURM_CONF"
for node in $(seq "$nodes"); do
  /usr/sbin/slurmd -c -N "$name$node" -f "$SLURM_CONF"
done
if [ -n "${OWNER:-}" ]; then
  down=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/down.sh
  # shellcheck disable=SC2016
  setsid bash -c 'while kill -0 "$1" && [ -d "$3" ]; do sleep 1; done; "$2" "$3"' _ "$OWNER" "$down" "$folder" \
    </dev/null >/dev/null 2>&1 &
fi
for _ in $(seq 60); do
  [ "$(sinfo -h -N -o '%t' | grep -c idle)" -ge $((2 * nodes)) ] && exit # each node is in two partitions
  sleep 0.25
done
sinfo -N -l >&2
echo "the nodes do not become idle; logs: $folder/log" >&2
exit 1
