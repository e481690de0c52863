package rank

import (
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
)

const testKey = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func variables(text string) func(string) string {
	return func(name string) string {
		for _, v := range strings.Fields(text) {
			if n, value, _ := strings.Cut(v, "="); n == name {
				return value
			}
		}
		return ""
	}
}

// The variables of Open MPI 4.1 and 5.0, MPICH 4.0 and 5.0, Intel MPI 2021.18 and Slurm 22.05 were
// printed by `env` under these launchers. The others are from the manuals.
var engineTests = []struct {
	name string
	vars string
	want World
}{
	{"alone", "HOME=/root RANK=3 SLURM_JOB_ID=7",
		World{Size: 1, LocalSize: 1}},
	{"wdlrun", "WDLRUN_RANK=2 WDLRUN_SIZE=4 WDLRUN_LOCAL_RANK=2 WDLRUN_LOCAL_SIZE=4 WDLRUN_GENERATION=3 WDLRUN_COORDINATOR=127.0.0.1:5 WDLRUN_LAUNCHER=9 WDLRUN_JOB=j WDLRUN_KEY=" + testKey,
		World{Rank: 2, Size: 4, LocalRank: 2, LocalSize: 4, Generation: 3, By: "wdlrun", Job: "j", Coordinator: "127.0.0.1:5", Launched: true, Key: mustKey(testKey)}},
	{"wdlrun by hand", "WDLRUN_RANK=1 WDLRUN_SIZE=2 WDLRUN_JOB=j WDLRUN_RENDEZVOUS=/shared WDLRUN_IP=10.0.0.7",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "wdlrun", Job: "j", Rendezvous: "/shared", IP: "10.0.0.7"}},
	{"openmpi", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=1998389249 PMIX_RANK=1 OMPI_MCA_ess_base_jobid=1998389249",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "openmpi", Job: "openmpi-1998389249"}},
	{"openmpi within slurm", "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0 SLURM_JOB_ID=5 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_MCA_ess_base_jobid=7",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "openmpi", Job: "openmpi-7"}},
	{"mpich", "PMI_FD=6 PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2",
		World{Size: 2, LocalSize: 2, By: "mpich", Job: "mpich-4711"}},
	{"mpich on several hosts", "PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2",
		World{Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, By: "mpich"}},
	{"slurm", "SLURM_PROCID=6 SLURM_STEP_NUM_TASKS=7 SLURM_LOCALID=0 SLURM_STEP_ID=1 SLURM_JOB_ID=55 SLURM_STEP_TASKS_PER_NODE=2(x3),1 SLURM_NODEID=3",
		World{Rank: 6, Size: 7, LocalSize: 1, By: "slurm", Job: "slurm-55-1"}},
	{"slurm with pmi2", "PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_STEP_ID=0 SLURM_JOB_ID=5 SLURM_STEP_TASKS_PER_NODE=2 SLURM_NODEID=0",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "slurm", Job: "slurm-5-0"}},
	{"slurm batch script", "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_JOB_ID=5",
		World{Size: 1, LocalSize: 1}},
	{"slurm batch step", "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=4294967291 SLURM_JOB_ID=5",
		World{Size: 1, LocalSize: 1}},
	{"torchrun", "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=2",
		World{Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, Generation: 2, By: "torchrun", Job: "torchrun-none-h0-29500"}},
	{"torchrun within slurm", "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0 SLURM_JOB_ID=5 RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "torchrun", Job: "torchrun"}},
	{"indexed job", "JOB_COMPLETION_INDEX=2 WDLRUN_SIZE=3 WDLRUN_COORDINATOR=job-0.svc:29400 WDLRUN_KEY=" + testKey,
		World{Rank: 2, Size: 3, LocalSize: 1, By: "indexed job", Coordinator: "job-0.svc:29400", Key: mustKey(testKey)}},
	{"indexed job of pods with two ranks", "JOB_COMPLETION_INDEX=2 WDLRUN_SIZE=6 WDLRUN_LOCAL_RANK=1 WDLRUN_LOCAL_SIZE=2 WDLRUN_COORDINATOR=job-0.svc:29400 WDLRUN_KEY=" + testKey,
		World{Rank: 5, Size: 6, LocalRank: 1, LocalSize: 2, By: "indexed job", Coordinator: "job-0.svc:29400", Key: mustKey(testKey)}},
	{"indexed job of separate experiments", "JOB_COMPLETION_INDEX=2 WDLRUN_SIZE=1",
		World{Size: 1, LocalSize: 1}},
	{"openmpi 5", "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_UNIVERSE_SIZE=2 OMPI_VERSION=5.0.11 PMIX_NAMESPACE=prterun-vm-21725@1 PMIX_RANK=1 PRTE_LAUNCHED=1",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "openmpi", Job: "openmpi-prterun-vm-21725@1"}},
	{"mpich 5", "HYDI_CONTROL_FD=7 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 PMI_FD=11 PMI_HOSTNAME=vm PMI_RANK=1 PMI_SIZE=2",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "mpich", Job: "mpich-4711"}},
	{"mpich 5, gforker", "MPI_APPNUM=0 MPI_UNIVERSE_SIZE=-1 PMI_DEBUG=0 PMI_FD=12 PMI_RANK=1 PMI_SIZE=2",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "pmi"}},
	{"intel mpi", "I_MPI_INFO_NP=1 I_MPI_PIN_INFO=1 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 PMI_FD=11 PMI_RANK=1 PMI_SIZE=2",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "mpich", Job: "mpich-4711"}},
	{"slurm 22 with pmi2", "PMI_FD=10 PMI_JOBID=3.0 PMI_RANK=2 PMI_SIZE=3 SLURM_JOB_ID=3 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_NTASKS=3 SLURM_PROCID=2 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=2,1",
		World{Rank: 2, Size: 3, LocalSize: 1, By: "slurm", Job: "slurm-3-0"}},
	{"slurm, both parts of a heterogeneous job", "SLURM_HET_SIZE=2 SLURM_JOB_ID=4 SLURM_LOCALID=1 SLURM_NNODES=2 SLURM_NODEID=1 SLURM_NTASKS=4 SLURM_PROCID=3 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=2(x2)",
		World{Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, By: "slurm", Job: "slurm-4-0"}},
	{"slurm with pmix", "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0 SLURM_JOB_ID=5 PMIX_RANK=0 PMIX_NAMESPACE=slurm.pmix.5.0",
		World{Size: 1, LocalSize: 1, By: "slurm", Job: "slurm-5-0"}},
	{"interactive shell of slurm with pmix", "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=4294967290 SLURM_JOB_ID=5 PMIX_RANK=0 PMIX_NAMESPACE=slurm.pmix.5.4294967290 SLURM_NTASKS=8",
		World{Size: 1, LocalSize: 1}},
	{"interactive shell of slurm with pmi2", "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=4294967290 SLURM_JOB_ID=5 PMI_RANK=0 PMI_SIZE=1",
		World{Size: 1, LocalSize: 1}},
	{"openmpi on the nodes of a slurm job", "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=5 SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_NODEID=1 OMPI_COMM_WORLD_RANK=6 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=p",
		World{Rank: 6, Size: 8, LocalRank: 2, LocalSize: 4, By: "openmpi", Job: "openmpi-p"}},
	{"horovod", "HOROVOD_RANK=3 HOROVOD_SIZE=4 HOROVOD_LOCAL_RANK=1 HOROVOD_LOCAL_SIZE=2 HOROVOD_CROSS_RANK=1 HOROVOD_CROSS_SIZE=2 HOROVOD_GLOO_RENDEZVOUS_ADDR=10.0.0.1 HOROVOD_GLOO_RENDEZVOUS_PORT=4000",
		World{Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, By: "horovod", Job: "horovod-10.0.0.1-4000"}},
	{"mvapich", "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=2",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "mvapich", Job: "mvapich-4711"}},
	{"jsrun", "JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=4 JSM_NAMESPACE_LOCAL_RANK=1 JSM_NAMESPACE_LOCAL_SIZE=2 LSB_JOBID=9 JSM_NAMESPACE_ID=1 PMIX_RANK=1 PMIX_NAMESPACE=1",
		World{Rank: 1, Size: 4, LocalRank: 1, LocalSize: 2, By: "jsrun", Job: "jsrun-9-1"}},
	{"flux", "FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=1 FLUX_JOB_ID=f2gZ PMI_RANK=1 PMI_SIZE=2",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "flux", Job: "flux-f2gZ"}},
	{"pals", "PALS_RANKID=5 PMI_RANK=5 PMI_SIZE=8 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 PALS_APID=a-b",
		World{Rank: 5, Size: 8, LocalRank: 1, LocalSize: 4, By: "pals", Job: "pals-a-b"}},
	{"htcondor", "_CONDOR_PROCNO=1 _CONDOR_NPROCS=2",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "htcondor"}},
	{"paddle", "PADDLE_TRAINER_ID=1 PADDLE_TRAINERS_NUM=2 PADDLE_RANK_IN_NODE=1 PADDLE_LOCAL_SIZE=2",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "paddle"}},
	{"a pod of a PyTorchJob", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=job-master-0 MASTER_PORT=23456 PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=auto",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "torchrun", Job: "torchrun-job-master-0-23456"}},
	{"a pod of Trainer v2", "PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_MASTER_ADDR=j-node-0-0.j PET_MASTER_PORT=29500 JOB_COMPLETION_INDEX=1",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "kubeflow trainer", Job: "kubeflow trainer-j-node-0-0.j-29500"}},
	{"torchrun in pods of Trainer v2", "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=j TORCHELASTIC_RUN_ID=r PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=4 JOB_COMPLETION_INDEX=1",
		World{Rank: 5, Size: 8, LocalRank: 1, LocalSize: 4, By: "torchrun", Job: "torchrun-r-j"}},
	{"the only pod of Trainer v2", "PET_NODE_RANK=0 PET_NNODES=1 JOB_COMPLETION_INDEX=0 PET_NPROC_PER_NODE=1",
		World{Size: 1, LocalSize: 1}},
	{"tfjob", `TF_CONFIG={"cluster":{"chief":["c:1"],"ps":["p:1"],"worker":["w0:1","w1:1"]},"task":{"type":"worker","index":1}}`,
		World{Rank: 2, Size: 3, LocalSize: 1, By: "tfjob", Job: "tfjob-c:1"}},
	{"tfjob of one worker", `TF_CONFIG={"cluster":{"worker":["w0:1"]},"task":{"type":"worker","index":0},"environment":"cloud"}`,
		World{Size: 1, LocalSize: 1}},
	{"tfjob without a cluster", `TF_CONFIG={"environment":"cloud"} CLUSTER_SPEC={"task":{"type":"chief","index":"0"}}`,
		World{Size: 1, LocalSize: 1}},
	{"vertex ai", `CLUSTER_SPEC={"cluster":{"workerpool0":["a:2222"],"workerpool1":["b:2222","c:2222"]},"environment":"cloud","task":{"type":"workerpool1","index":0,"trial":""}} TF_CONFIG={"cluster":{"chief":["a:2222"],"worker":["b:2222","c:2222"]},"task":{"type":"worker","index":0}}`,
		World{Rank: 1, Size: 3, LocalSize: 1, By: "tfjob", Job: "tfjob-a:2222"}},
	{"sagemaker", `SM_HOSTS=["algo-1","algo-2"] SM_CURRENT_HOST=algo-2 TRAINING_JOB_ARN=arn`,
		World{Rank: 1, Size: 2, LocalSize: 1, By: "sagemaker", Job: "sagemaker-arn"}},
	{"sagemaker on one host", `SM_HOSTS=["algo-1"] SM_CURRENT_HOST=algo-1`,
		World{Size: 1, LocalSize: 1}},
	{"aws batch", "AWS_BATCH_JOB_NODE_INDEX=1 AWS_BATCH_JOB_NUM_NODES=4 AWS_BATCH_JOB_MAIN_NODE_INDEX=0",
		World{Rank: 1, Size: 4, LocalSize: 1, By: "aws batch"}},
	{"aws batch on one node", "AWS_BATCH_JOB_NODE_INDEX=0 AWS_BATCH_JOB_NUM_NODES=1",
		World{Size: 1, LocalSize: 1}},
	{"google batch", "BATCH_TASK_INDEX=1 BATCH_TASK_COUNT=2 BATCH_JOB_UID=u",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "google batch", Job: "google batch-u"}},
	{"cloud run", "CLOUD_RUN_TASK_INDEX=0 CLOUD_RUN_TASK_COUNT=1 CLOUD_RUN_EXECUTION=e",
		World{Size: 1, LocalSize: 1}},
	{"leaderworkerset", "LWS_WORKER_INDEX=1 LWS_GROUP_SIZE=2 LWS_LEADER_ADDRESS=l-0.l",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "leaderworkerset", Job: "leaderworkerset-l-0.l"}},
	{"skypilot", "SKYPILOT_NODE_RANK=1 SKYPILOT_NUM_NODES=2 SKYPILOT_TASK_ID=t",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "skypilot", Job: "skypilot-t"}},
	{"declared alone under prterun", "PMIX_RANK=1 PMIX_NAMESPACE=prterun-vm-21708@1 WDLRUN_SIZE=1",
		World{Size: 1, LocalSize: 1}},
	{"declared alone under openmpi", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 WDLRUN_SIZE=1",
		World{Size: 1, LocalSize: 1}},
	{"numbered by hand under prterun", "PMIX_RANK=1 WDLRUN_RANK=1 WDLRUN_SIZE=2",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "wdlrun"}},
	{"element of an array", "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_COUNT=8 PBS_ARRAY_INDEX=3 LSB_JOBINDEX=3 SGE_TASK_ID=3 AWS_BATCH_JOB_ARRAY_INDEX=3",
		World{Size: 1, LocalSize: 1}},
	{"script of PBS", "PBS_JOBID=1.s PBS_TASKNUM=1 PBS_NODENUM=0 PBS_VNODENUM=0 PBS_NP=8 PBS_NUM_NODES=2",
		World{Size: 1, LocalSize: 1}},
	{"allocation of Nomad, shell of flux, salloc and ray", "NOMAD_ALLOC_INDEX=0 FLUX_URI=local:///f SLURM_JOB_ID=1 SLURM_NTASKS=8 SLURM_HET_SIZE=2 RAY_JOB_ID=1 AZUREML_NODE_COUNT=1 HOROVOD_ELASTIC=0 WORLD_SIZE=4 KUBERNETES_SERVICE_HOST=10.0.0.1",
		World{Size: 1, LocalSize: 1}},
	{"own coordinator under openmpi", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=1 WDLRUN_JOB=mine WDLRUN_COORDINATOR=[::1]:77 WDLRUN_KEY=" + testKey,
		World{Rank: 1, Size: 2, LocalSize: 1, By: "openmpi", Job: "mine", Coordinator: "[::1]:77", Key: mustKey(testKey)}},
}

func mustKey(s string) Key {
	k, err := ParseKey(s)
	if err != nil {
		panic(err)
	}
	return k
}

// TestEngines: FromEnv recognises the variables of each launcher.
func TestEngines(t *testing.T) {
	for _, c := range engineTests {
		c.want.Host = "here"
		w, found, err := fromEnv(variables(c.vars), "here", 4711)
		named := w.Named
		w.Named, w.together = "", false
		if err != nil || w != c.want || found != (named != "") || found != (c.want.By != "") {
			t.Errorf("%s:\n got  %+v %v %v\n want %+v", c.name, w, found, err, c.want)
		}
		if err == nil && w.Validate() != nil {
			t.Errorf("%s: %v", c.name, w.Validate())
		}
	}
}

// TestBadEnvironment: an invalid variable gives an error that names it.
func TestBadEnvironment(t *testing.T) {
	for _, c := range []struct{ vars, want string }{
		{"WDLRUN_RANK=0", "rank: environment of wdlrun: WDLRUN_SIZE is not set"},
		{"WDLRUN_SIZE=2", "rank: environment of wdlrun: WDLRUN_RANK is not set"},
		{"WDLRUN_RANK=x WDLRUN_SIZE=2", `WDLRUN_RANK="x" is not a whole number`},
		{"WDLRUN_RANK=-1 WDLRUN_SIZE=2", `WDLRUN_RANK="-1" is not within 0 … 65536`},
		{"WDLRUN_RANK=2 WDLRUN_SIZE=2", `WDLRUN_RANK="2" is not below WDLRUN_SIZE="2"`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=0", `WDLRUN_SIZE="0": there is at least one rank`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=99999999999999999999", `WDLRUN_SIZE="99999999999999999999" is not a whole number`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_LOCAL_SIZE=3", `WDLRUN_LOCAL_SIZE="3" is above WDLRUN_SIZE="2"`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_LOCAL_RANK=1 WDLRUN_LOCAL_SIZE=1", `WDLRUN_LOCAL_RANK="1" is not below WDLRUN_LOCAL_SIZE="1"`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_LAUNCHER=4", "WDLRUN_COORDINATOR and WDLRUN_KEY must be"},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_COORDINATOR=here", `WDLRUN_COORDINATOR="here" is not host:port`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_COORDINATOR=here:99999", `is not host:port`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_COORDINATOR=here:1", "WDLRUN_KEY is not"},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_KEY=abc", "3 characters where 64 hexadecimal digits"},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_IP=h", `WDLRUN_IP="h" is not an IP address`},
		{"OMPI_COMM_WORLD_RANK=1", `rank: environment: OMPI_COMM_WORLD_RANK="1": this process seems to be one of several, but their number is unknown; set WDLRUN_RANK, WDLRUN_SIZE, WDLRUN_LOCAL_RANK and WDLRUN_LOCAL_SIZE in each process, or only WDLRUN_SIZE=1 if each is to run alone`},
		{"PMIX_RANK=0 PMIX_NAMESPACE=prterun-vm-21708@1 PMIX_VERSION=5.0.11rc1 PRTE_LAUNCHED=1", `PMIX_RANK="0", PMIX_NAMESPACE="prterun-vm-21708@1": this process seems`},
		{"HYDI_CONTROL_FD=7 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=0 PMI_ID=0 PMI_PORT=vm:45373", `PMI_ID="0", PMI_PORT="vm:45373": this process seems`},
		{"PMI_RANK=0", `PMI_RANK="0": this process seems`},
		{"PALS_RANKID=0", `PALS_RANKID="0": this process seems`},
		{"FLUX_TASK_RANK=0", `FLUX_TASK_RANK="0": this process seems`},
		{"HOROVOD_RANK=0", `HOROVOD_RANK="0": this process seems`},
		{"MV2_COMM_WORLD_RANK=0", `MV2_COMM_WORLD_RANK="0": this process seems`},
		{"PET_NODE_RANK=0", `PET_NODE_RANK="0": this process seems`},
		{"JOB_COMPLETION_INDEX=0", `JOB_COMPLETION_INDEX="0": this process seems`},
		{"_CONDOR_PROCNO=0", `_CONDOR_PROCNO="0": this process seems`},
		{"TF_CONFIG=x", `TF_CONFIG="x": this process seems`},
		{"PBS_TASKNUM=2", `PBS_TASKNUM="2": this process seems`},
		{"NOMAD_ALLOC_INDEX=1", `NOMAD_ALLOC_INDEX="1": this process seems`},
		{"RANK=0 WORLD_SIZE=2", `WORLD_SIZE="2", RANK="0": this process seems`},
		{"SLURM_PROCID=1 SLURM_NTASKS=2", `SLURM_PROCID="1": this process seems`},
		{`TF_CONFIG={"cluster":{"worker":["a:1"],"ps":["b:1"]},"task":{"type":"ps","index":0}}`, `rank: environment of tfjob: TF_CONFIG="{`},
		{`TF_CONFIG={"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":1}}`, `task "worker" of index "1" is not one of`},
		{`SM_HOSTS=["a"] SM_CURRENT_HOST=b`, `SM_CURRENT_HOST="b" is not in SM_HOSTS="[\"a\"]"`},
		{"PET_NODE_RANK=0 PET_NNODES=2 PET_NPROC_PER_NODE=4", `PET_NPROC_PER_NODE="4" needs torchrun`},
		{"PET_NODE_RANK=0 PET_NNODES=1:4", `PET_NNODES="1:4" is not a whole number`},
		{"RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", `rank: environment: torchrun and openmpi contradict each other: RANK="0", WORLD_SIZE="1", but OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2"; unset`},
		{"RANK=0 WORLD_SIZE=4 MASTER_ADDR=h SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=4", `torchrun and slurm contradict each other`},
		{"RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 PMIX_RANK=1", `PMIX_RANK="1", which is not a rank of RANK="0", WORLD_SIZE="1"`},
		{"OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=2", `OMPI_COMM_WORLD_RANK="5" is not below OMPI_COMM_WORLD_SIZE="2"`},
		{"PMI_RANK=1 PMI_SIZE=1.5 MPI_LOCALRANKID=1", `PMI_SIZE="1.5" is not a whole number`},
		{"RANK=1 WORLD_SIZE=two LOCAL_RANK=1", `WORLD_SIZE="two" is not a whole number`},
		{"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0", `SLURM_PROCID="3" is not below SLURM_STEP_NUM_TASKS="2"`},
		{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=2(x SLURM_NODEID=0", `SLURM_STEP_TASKS_PER_NODE="2(x" has no entry`},
		{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=2 SLURM_NODEID=1", `has no entry for SLURM_NODEID="1"`},
		{"JOB_COMPLETION_INDEX=3 WDLRUN_SIZE=3", `JOB_COMPLETION_INDEX="3" is not below WDLRUN_SIZE="3"`},
	} {
		w, found, err := fromEnv(variables(c.vars), "here", 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got  %v\n want %s", c.vars, err, c.want)
		}
		if found || w != (World{}) {
			t.Errorf("%s: the error comes with a world: %+v", c.vars, w)
		}
	}
}

// TestBadKeyIsNotRepeated: the error about an invalid key does not contain the key.
func TestBadKeyIsNotRepeated(t *testing.T) {
	almost := testKey[:63] + "g"
	_, _, err := fromEnv(variables("WDLRUN_RANK=0 WDLRUN_SIZE=1 WDLRUN_KEY="+almost), "here", 1)
	if err == nil || strings.Contains(err.Error(), almost[:16]) {
		t.Errorf("got %v", err)
	}
}

// TestEnvIsReadBack: FromEnv reads the World that Env has written, and Variables names all
// variables.
func TestEnvIsReadBack(t *testing.T) {
	w := World{Rank: 2, Size: 4, LocalRank: 2, LocalSize: 4, Host: "here", Generation: 3, By: "wdlrun", Job: "j",
		Named: `WDLRUN_RANK="2", WDLRUN_SIZE="4"`, Coordinator: "127.0.0.1:5", Launched: true, Key: NewKey(), Rendezvous: "/d", IP: "127.0.0.1"}
	if n := reflect.TypeFor[World]().NumField(); n != 15 {
		t.Errorf("World has %d fields, this test sets 14 and not together, which wdlrun never is", n)
	}
	known := strings.Join(Variables(), " ") + " "
	for _, v := range w.Env() {
		if name, _, _ := strings.Cut(v, "="); !strings.Contains(known, name+" ") {
			t.Errorf("Variables does not name %s", name)
		}
	}
	if len(w.Env()) != len(Variables()) {
		t.Errorf("%d variables are set, Variables names %d", len(w.Env()), len(Variables()))
	}
	got, found, err := fromEnv(variables(strings.Join(w.Env(), " ")), "here", 1)
	if err != nil || !found || got != w {
		t.Errorf("got  %+v %v\nwant %+v", got, err, w)
	}
}

// TestValidate: Validate rejects inconsistent worlds.
func TestValidate(t *testing.T) {
	good := World{Rank: 1, Size: 2, LocalSize: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, w := range []World{{}, {Size: MaxSize + 1}, {Rank: 2, Size: 2, LocalSize: 1}, {Rank: -1, Size: 2, LocalSize: 1},
		{Size: 2}, {Size: 2, LocalSize: 3}, {Size: 2, LocalSize: 1, LocalRank: 1}, {Size: 1, LocalSize: 1, Generation: -1}} {
		if w.Validate() == nil {
			t.Errorf("%+v is reported as valid", w)
		}
	}
}

// TestListenIP compares the address at which a rank listens with the expected one.
func TestListenIP(t *testing.T) {
	for _, c := range []struct {
		w    World
		want string
	}{
		{World{Size: 2, LocalSize: 2}, "127.0.0.1"},
		{World{Size: 2, LocalSize: 1, IP: "10.1.2.3"}, "10.1.2.3"},
		// On one host, the coordinator may have a loopback name or address.
		{World{Size: 2, LocalSize: 1, Coordinator: "localhost:7070"}, "127.0.0.1"},
		{World{Size: 2, LocalSize: 1, Coordinator: "127.0.0.1:7070"}, "127.0.0.1"},
		{World{Size: 2, LocalSize: 1, Coordinator: "[::1]:7070"}, "::1"},
	} {
		if ip, err := c.w.ListenIP(); err != nil || ip != c.want {
			t.Errorf("%+v: %s %v, want %s", c.w, ip, err, c.want)
		}
	}
	var addrs []net.Addr
	for _, s := range []string{"127.0.0.1/8", "::1/128", "fe80::1/64", "fd00::2/64", "192.0.2.2/24"} {
		ip, n, _ := net.ParseCIDR(s)
		n.IP = ip
		addrs = append(addrs, n)
	}
	if got := outward(addrs); got != "192.0.2.2" {
		t.Errorf("got %s", got)
	}
	if got := outward(addrs[:4]); got != "fd00::2" {
		t.Errorf("got %s", got)
	}
	if got := outward(addrs[:3]); got != "" {
		t.Errorf("got %s", got)
	}
}

func ExampleFromEnv() {
	env := map[string]string{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "42"}
	w, found, err := FromEnv(func(name string) string { return env[name] }) // a program passes os.Getenv
	fmt.Println(w.Rank, w.Size, w.By, w.Job, found, err)
	// Output: 1 2 openmpi openmpi-42 true <nil>
}

// TestEveryRankIsASign: a process that has its rank, but not the number of ranks, is not alone.
func TestEveryRankIsASign(t *testing.T) {
	for _, l := range launchers {
		switch l.name {
		case "torchrun", "slurm": // RANK is too common, and a batch script has SLURM_PROCID=0
			continue
		}
		w, found, err := fromEnv(variables(l.rank+"=0"), "here", 1)
		if err == nil || found || !strings.Contains(err.Error(), "WDLRUN_SIZE") {
			t.Errorf("%s=0: %+v %v %v", l.rank, w, found, err)
		}
		if alone, found, err := fromEnv(variables(l.rank+"=0 WDLRUN_SIZE=1"), "here", 1); l.name != own && (err != nil || found || alone.Size != 1) {
			t.Errorf("%s=0 WDLRUN_SIZE=1: %+v %v %v", l.rank, alone, found, err)
		}
	}
}

// TestLaunchersAreDocumented: docs/running.md names each launcher's variables.
func TestLaunchersAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range launchers {
		if !strings.Contains(string(b), l.rank) || !strings.Contains(string(b), l.size) {
			t.Errorf("docs/running.md does not contain %s and %s", l.rank, l.size)
		}
	}
	for _, s := range others {
		if !strings.Contains(string(b), s.name) {
			t.Errorf("docs/running.md does not contain %s", s.name)
		}
	}
}

// FuzzEnvironment: any variables give a valid world or an error.
func FuzzEnvironment(f *testing.F) {
	for _, c := range engineTests {
		f.Add(c.vars)
	}
	f.Fuzz(func(t *testing.T, vars string) {
		w, _, err := fromEnv(variables(vars), "here", 1)
		if err == nil && w.Validate() != nil {
			t.Errorf("%+v: %v", w, w.Validate())
		}
	})
}
