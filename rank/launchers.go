package rank

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// own is the name of the launcher of this module, whose variables override all others.
const own = "wdlrun"

// launcher describes the variables by which a launcher tells a process its place.
type launcher struct {
	name          string
	rank, size    string   // both are set in every process
	local, locals []string // rank among those of this host and their number; the first that is set
	hosts         string   // number of hosts
	job           []string // variables whose values together are the same for all ranks of a job, and for no other job

	perHost bool               // it starts one process for each host or pod; a single one is no rank
	parents bool               // the ranks of a host have the same parent process
	is      func(*env) bool    // also required
	more    func(*env, *World) // reads what the columns do not describe
	instead func(*env, *World) // reads the place instead of the columns
}

func names(s ...string) []string { return s }

// launchers are ordered from the inside out: torchrun and MPI run inside steps of Slurm and
// inside pods, not the other way round.
var launchers = [...]launcher{
	{name: own, rank: "WDLRUN_RANK", size: "WDLRUN_SIZE", is: (*env).isOwn, local: names("WDLRUN_LOCAL_RANK"), locals: names("WDLRUN_LOCAL_SIZE")},
	// PyTorch: torchrun, Ray Train, Accelerate, DeepSpeed; a PyTorchJob of Kubeflow has no LOCAL_RANK.
	// RANK and WORLD_SIZE alone are too common to be trusted.
	{name: "torchrun", rank: "RANK", size: "WORLD_SIZE", local: names("LOCAL_RANK"), locals: names("LOCAL_WORLD_SIZE"), is: (*env).isTorchrun, more: (*env).moreOfTorchrun},
	// horovodrun with Gloo. With MPI it starts mpirun.
	{name: "horovod", rank: "HOROVOD_RANK", size: "HOROVOD_SIZE", local: names("HOROVOD_LOCAL_RANK"), locals: names("HOROVOD_LOCAL_SIZE"), hosts: "HOROVOD_CROSS_SIZE",
		job: names("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")},
	// paddle.distributed.launch
	{name: "paddle", rank: "PADDLE_TRAINER_ID", size: "PADDLE_TRAINERS_NUM", local: names("PADDLE_RANK_IN_NODE", "PADDLE_LOCAL_RANK"), locals: names("PADDLE_LOCAL_SIZE"), job: names("PADDLE_JOB_ID", "PADDLE_MASTER")},
	// Open MPI manual, "Environment variables set for MPI applications".
	{name: "openmpi", rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE", local: names("OMPI_COMM_WORLD_LOCAL_RANK"), locals: names("OMPI_COMM_WORLD_LOCAL_SIZE"), more: (*env).moreOfOpenMPI},
	// MVAPICH user guide, mpirun_rsh.
	{name: "mvapich", rank: "MV2_COMM_WORLD_RANK", size: "MV2_COMM_WORLD_SIZE", local: names("MV2_COMM_WORLD_LOCAL_RANK"), locals: names("MV2_COMM_WORLD_LOCAL_SIZE"), parents: true},
	{name: "mvapich 3", rank: "MVP_COMM_WORLD_RANK", size: "MVP_COMM_WORLD_SIZE", local: names("MVP_COMM_WORLD_LOCAL_RANK"), locals: names("MVP_COMM_WORLD_LOCAL_SIZE"), parents: true},
	// jsrun of IBM's Job Step Manager
	{name: "jsrun", rank: "JSM_NAMESPACE_RANK", size: "JSM_NAMESPACE_SIZE", local: names("JSM_NAMESPACE_LOCAL_RANK"), locals: names("JSM_NAMESPACE_LOCAL_SIZE"), job: names("LSB_JOBID", "JSM_NAMESPACE_ID")},
	// Hydra: MPICH, Intel MPI. It sets no name of the job.
	{name: "mpich", rank: "PMI_RANK", size: "PMI_SIZE", local: names("MPI_LOCALRANKID"), locals: names("MPI_LOCALNRANKS"), parents: true, is: func(e *env) bool { return e.has("MPI_LOCALRANKID") }},
	// Flux, flux-environment(7).
	{name: "flux", rank: "FLUX_TASK_RANK", size: "FLUX_JOB_SIZE", local: names("FLUX_TASK_LOCAL_ID"), hosts: "FLUX_JOB_NNODES", job: names("FLUX_JOB_ID")},
	// Cray PALS, and mpiexec of Cray MPICH within PBS.
	{name: "pals", rank: "PALS_RANKID", size: "PMI_SIZE", local: names("PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"), locals: names("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"), job: names("PALS_APID")},
	// srun(1), within a step.
	{name: "slurm", rank: "SLURM_PROCID", size: "SLURM_STEP_NUM_TASKS", local: names("SLURM_LOCALID"), is: (*env).inStep, more: (*env).moreOfSlurm},
	// The simple process managers of MPICH and others that speak PMI-1. An interactive shell
	// of Slurm has PMI_SIZE=1.
	{name: "pmi", rank: "PMI_RANK", size: "PMI_SIZE", local: names("PMI_LOCAL_RANK"), locals: names("PMI_LOCAL_SIZE"), job: names("PMI_JOBID"), perHost: true, is: func(e *env) bool { return !e.has("SLURM_STEP_NUM_TASKS") || !e.inStep() }},
	// The parallel universe of HTCondor, condor_submit(1).
	{name: "htcondor", rank: "_CONDOR_PROCNO", size: "_CONDOR_NPROCS", perHost: true},
	// Trainer v2 and PyTorchJob of Kubeflow, in a container that does not start torchrun.
	{name: "kubeflow trainer", rank: "PET_NODE_RANK", size: "PET_NNODES", perHost: true, job: names("PET_MASTER_ADDR", "PET_MASTER_PORT"), more: (*env).moreOfTrainer},
	// TFJob of Kubeflow, TensorFlow's TF_CONFIG; custom jobs of Vertex AI.
	{name: "tfjob", rank: "TF_CONFIG", size: "TF_CONFIG", perHost: true, is: func(e *env) bool { return e.isTask("TF_CONFIG") }, instead: func(e *env, w *World) { e.readCluster(w, "TF_CONFIG") }},
	{name: "vertex ai", rank: "CLUSTER_SPEC", size: "CLUSTER_SPEC", perHost: true, is: func(e *env) bool { return e.isTask("CLUSTER_SPEC") }, instead: func(e *env, w *World) { e.readCluster(w, "CLUSTER_SPEC") }},
	// SageMaker training toolkit.
	{name: "sagemaker", rank: "SM_CURRENT_HOST", size: "SM_HOSTS", perHost: true, job: names("TRAINING_JOB_ARN"), instead: (*env).readSageMaker},
	// Multi-node parallel jobs of AWS Batch.
	{name: "aws batch", rank: "AWS_BATCH_JOB_NODE_INDEX", size: "AWS_BATCH_JOB_NUM_NODES", perHost: true},
	// Google Batch and Cloud Run jobs: the tasks of one job.
	{name: "google batch", rank: "BATCH_TASK_INDEX", size: "BATCH_TASK_COUNT", perHost: true, job: names("BATCH_JOB_UID")},
	{name: "cloud run", rank: "CLOUD_RUN_TASK_INDEX", size: "CLOUD_RUN_TASK_COUNT", perHost: true, job: names("CLOUD_RUN_EXECUTION")},
	// LeaderWorkerSet of Kubernetes
	{name: "leaderworkerset", rank: "LWS_WORKER_INDEX", size: "LWS_GROUP_SIZE", perHost: true, job: names("LWS_LEADER_ADDRESS")},
	{name: "skypilot", rank: "SKYPILOT_NODE_RANK", size: "SKYPILOT_NUM_NODES", perHost: true, job: names("SKYPILOT_TASK_ID")},
	// An Indexed Job of Kubernetes does not tell its pods their number.
	{name: "indexed job", rank: "JOB_COMPLETION_INDEX", size: "WDLRUN_SIZE", local: names("WDLRUN_LOCAL_RANK"), locals: names("WDLRUN_LOCAL_SIZE"), perHost: true, more: (*env).moreOfIndexedJob},
}

// sign is a variable whose value shows that a process is one of several.
type sign struct {
	name   string
	above  int             // numbers up to this show nothing; -1: every value is a sign
	rank   bool            // the value is a rank
	also   []string        // variables to name too
	unless func(*env) bool // it is no sign
}

// others are signs of launchers that do not set the number of ranks.
var others = [...]sign{
	{name: "PMIX_RANK", above: -1, rank: true, also: names("PMIX_NAMESPACE"), unless: (*env).shellOfSlurm}, // prterun of PRRTE, and others that speak PMIx
	{name: "PMI_ID", above: -1, rank: true, also: names("PMI_PORT")},                                       // Hydra with -pmi-port
	{name: "ALPS_APP_PE", above: -1, rank: true},                                                           // aprun
	{name: "MPI_RANKID", above: -1, rank: true},                                                            // IBM Platform MPI
	{name: "MP_CHILD", above: -1, rank: true},                                                              // IBM Parallel Environment
	{name: "MPIRUN_RANK", above: -1, rank: true},                                                           // MVAPICH 1
	{name: "LSF_PM_TASKID", above: -1},                                                                     // blaunch of LSF
	{name: "PBS_TASKNUM", above: 1},                                                                        // pbsdsh; a script of PBS has 1
	{name: "SLURM_PROCID", above: 0},                                                                       // a batch script of Slurm has 0
	{name: "DMLC_TASK_ID", above: -1, also: names("DMLC_ROLE", "DMLC_NUM_WORKER")},                         // trackers of MXNet and XGBoost
	{name: "VC_TASK_INDEX", above: -1},                                                                     // Volcano
	{name: "TF_CONFIG", above: -1, unless: func(e *env) bool { return e.clusterless("TF_CONFIG") }},
	{name: "CLUSTER_SPEC", above: -1, unless: func(e *env) bool { return e.clusterless("CLUSTER_SPEC") }},
	{name: "NOMAD_ALLOC_INDEX", above: 0},
	{name: "AZUREML_NODE_COUNT", above: 1},
	{name: "HOROVOD_ELASTIC", above: 0},
	{name: "WORLD_SIZE", above: 1, also: names("RANK"), unless: func(e *env) bool { return !e.has("RANK") }},
}

// signs returns the others and the ranks of all launchers, which are signs if the number of
// ranks is missing.
func signs() []sign {
	all := slices.Clone(others[:])
	for _, l := range launchers {
		switch l.name {
		case own, "torchrun", "slurm": // isOwn; WORLD_SIZE and SLURM_PROCID are in others
		case "tfjob", "vertex ai": // their descriptions are in others
		default:
			all = append(all, sign{name: l.rank, above: -1, rank: !l.perHost || l.name == "pmi"})
		}
	}
	return all
}

// started reports whether l has started this process, as far as the variables show.
func (l launcher) started(e *env) bool {
	if l.name == own {
		return l.is(e)
	}
	return e.has(l.rank) && e.has(l.size) && (l.is == nil || l.is(e))
}

func (l launcher) read(e *env, w *World) {
	if len(l.job) > 0 {
		values := []string{l.name}
		for _, name := range l.job {
			values = append(values, e.get(name))
		}
		if job := join(values...); job != l.name {
			w.Job = job
		}
	}
	if l.instead != nil {
		l.instead(e, w)
		return
	}
	e.place(w, l.rank, l.size, e.first(l.local), e.first(l.locals))
	if l.hosts != "" && e.locals == "" && e.get(l.hosts) == "1" {
		w.LocalSize = w.Size
	}
	if l.more != nil {
		l.more(e, w)
	}
	if w.Job == "" && l.parents && w.oneHost() {
		w.Job = join(l.name, strconv.Itoa(e.parent))
	}
}

// first returns the first variable that is set, or else the first.
func (e *env) first(names []string) string {
	if i := slices.IndexFunc(names, e.has); i >= 0 {
		return names[i]
	}
	return ""
}

func (e *env) isOwn() bool {
	return e.has("WDLRUN_RANK") || e.has("WDLRUN_SIZE") && !e.has("JOB_COMPLETION_INDEX")
}

func (e *env) isTorchrun() bool { return e.has("LOCAL_RANK") || e.has("MASTER_ADDR") }

// moreOfTorchrun names the job by run id and master address, because the run id of every job
// on one host is "none".
func (e *env) moreOfTorchrun(w *World) {
	w.Generation = e.numberOr("TORCHELASTIC_RESTART_COUNT", 0)
	w.Job = join("torchrun", e.get("TORCHELASTIC_RUN_ID"), e.get("MASTER_ADDR"), e.get("MASTER_PORT"))
}

func (e *env) moreOfOpenMPI(w *World) {
	if name := e.first(names("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri")); name != "" {
		w.Job = join("openmpi", e.get(name))
	}
}

// moreOfTrainer rejects a number of processes per node, which only torchrun starts.
func (e *env) moreOfTrainer(*World) {
	if n, err := strconv.Atoi(e.get("PET_NPROC_PER_NODE")); err == nil && n > 1 {
		e.fail("%s needs torchrun, which starts the processes of a node: torchrun --no_python wdlrun train; or set PET_NPROC_PER_NODE=1", e.named("PET_NPROC_PER_NODE"))
	}
}

// moreOfIndexedJob numbers ranks by pod, because a pod has one container per rank.
func (e *env) moreOfIndexedJob(w *World) {
	w.Rank = w.Rank*max(w.LocalSize, 1) + w.LocalRank
}

// slurmSpecial is the first number of Slurm's own steps: batch script, extern, interactive.
const slurmSpecial = 0xfffffff0

// inStep returns false for a batch script or a shell, which has SLURM_PROCID but is not a rank.
func (e *env) inStep() bool {
	step, err := strconv.ParseUint(e.get("SLURM_STEP_ID"), 10, 32)
	return e.has("SLURM_STEP_ID") && (err != nil || step < slurmSpecial)
}

// shellOfSlurm reports whether Slurm itself, and no launcher within its shell, set the variables of PMIx.
func (e *env) shellOfSlurm() bool {
	return !e.inStep() && strings.HasPrefix(e.get("PMIX_NAMESPACE"), "slurm.pmix.")
}

func (e *env) moreOfSlurm(w *World) {
	if _, err := strconv.ParseUint(e.get("SLURM_STEP_ID"), 10, 32); err != nil {
		e.fail("SLURM_STEP_ID=%q is not a whole number", e.get("SLURM_STEP_ID"))
	}
	w.Job = join("slurm", e.get("SLURM_JOB_ID"), e.get("SLURM_STEP_ID"))
	if !e.has("SLURM_STEP_TASKS_PER_NODE") {
		return
	}
	e.locals = "SLURM_STEP_TASKS_PER_NODE"
	n, ok := tasksOn(e.get(e.locals), e.numberOr("SLURM_NODEID", 0))
	if !ok {
		e.fail("%s=%q has no entry for SLURM_NODEID=%q", e.locals, e.get(e.locals), e.get("SLURM_NODEID"))
	}
	w.LocalSize = n
}

var repeated = pattern.Lazy(`^(\d{1,6})(?:\(x(\d{1,6})\))?$`)

// tasksOn reads the entry of a node from a list like "2(x3),1".
func tasksOn(list string, node int) (tasks int, ok bool) {
	for entry := range strings.SplitSeq(list, ",") {
		m := repeated().FindStringSubmatch(entry)
		if m == nil {
			return 0, false
		}
		times := 1
		if m[2] != "" {
			times, _ = strconv.Atoi(m[2])
		}
		if node < times {
			tasks, _ = strconv.Atoi(m[1])
			return tasks, true
		}
		node -= times
	}
	return 0, false
}

// cluster is the description of all processes of a job in TF_CONFIG and CLUSTER_SPEC.
type cluster struct {
	Cluster map[string][]string `json:"cluster"`
	Task    struct {
		Type  string      `json:"type"`
		Index json.Number `json:"index"`
	} `json:"task"`
}

// maxCluster bounds the bytes of such a description.
const maxCluster = 1 << 20

// clusterless reports whether a description is valid and has no cluster.
func (e *env) clusterless(name string) bool {
	c, valid := e.cluster(name)
	return valid && len(c.Cluster) == 0
}

// cluster parses a description. An empty one is returned if it is invalid.
func (e *env) cluster(name string) (c cluster, valid bool) {
	if v := e.get(name); len(v) > maxCluster || json.Unmarshal([]byte(v), &c) != nil {
		return cluster{}, false
	}
	return c, true
}

func (e *env) isTask(name string) bool {
	c, _ := e.cluster(name)
	return c.Task.Type != ""
}

// trains lists the types of tasks that train, in the order of their ranks. Parameter servers and
// evaluators do not.
var trains = [...]string{"chief", "master", "workerpool0", "worker", "workerpool1", "workerpool2", "workerpool3"}

// readCluster numbers the tasks that train.
func (e *env) readCluster(w *World, name string) {
	c, _ := e.cluster(name)
	index, err := strconv.Atoi(c.Task.Index.String())
	if c.Task.Index == "" {
		index, err = 0, nil
	}
	e.rank, e.size = name, name
	w.Size, w.Rank = 0, -1
	for _, kind := range trains {
		if kind == c.Task.Type {
			w.Rank = w.Size + index
		}
		w.Size += len(c.Cluster[kind])
	}
	switch {
	case len(c.Cluster) == 0 && index == 0:
		w.Rank, w.Size = 0, 1 // a task without a cluster
	case err != nil || w.Rank < 0 || index < 0 || index >= len(c.Cluster[c.Task.Type]):
		e.fail("%s: task %q of index %q is not one of %s of its cluster, which train; set %s", e.named(name), c.Task.Type, c.Task.Index, strings.Join(trains[:4], ", "), fourOrAlone)
	case w.Size > MaxSize:
		e.fail("%s names more than %d ranks", name, MaxSize)
	}
	if h := c.Cluster[trainsFirst(c)]; len(h) > 0 {
		w.Job = join(w.By, h[0])
	}
}

// trainsFirst returns the type of the task with rank 0.
func trainsFirst(c cluster) string {
	i := slices.IndexFunc(trains[:], func(kind string) bool { return len(c.Cluster[kind]) > 0 })
	return trains[max(i, 0)]
}

// readSageMaker numbers hosts by their place in a list of JSON.
func (e *env) readSageMaker(w *World) {
	e.rank, e.size = "SM_CURRENT_HOST", "SM_HOSTS"
	var hosts []string
	if err := json.Unmarshal([]byte(e.get("SM_HOSTS")), &hosts); err != nil {
		e.fail("%s is not a list of hosts: %w", e.named("SM_HOSTS"), err)
		return
	}
	w.Rank, w.Size = slices.Index(hosts, e.get("SM_CURRENT_HOST")), len(hosts)
	if w.Rank < 0 {
		e.fail("%s is not in %s", e.named("SM_CURRENT_HOST"), e.named("SM_HOSTS"))
	}
}

// join joins the non-empty parts of a job's name.
func join(parts ...string) string {
	var have []string
	for _, p := range parts {
		if p != "" {
			have = append(have, p)
		}
	}
	return strings.Join(have, "-")
}
