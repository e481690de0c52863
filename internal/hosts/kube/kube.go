// Package kube writes the manifests of a training, or of an online loop, on Kubernetes.
//
// A host is a pod of an Indexed Job, with one container per rank. The ranks meet at the
// DNS name of the first pod, and wait until it exists. A JobSet also restarts all pods
// after a failure.
//
// Manifest rejects what Kubernetes would reject. The module internal/hosts/kube/schema checks the
// manifests against the schemas of k8s.io/api and JobSet.
package kube

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// Kinds of manifests.
const (
	Job    = "job"
	JobSet = "jobset"
)

const (
	// maxName leaves room for suffixes that Kubernetes adds: host names have at most 63
	// characters.
	maxName = 40

	// maxConfig is the maximum size of the configuration: a ConfigMap has at most 1 MiB.
	maxConfig = 1 << 20

	// maxPods is the maximum of one Indexed Job.
	maxPods = 100000

	port      = 7070 // of the coordinator
	maxStarts = 3    // after failures
)

var (
	label    = pattern.Lazy(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	quantity = pattern.Lazy(`^[1-9][0-9]*(Ki|Mi|Gi|Ti|k|M|G|T)?$`)
)

// check returns all faults.
func (s Spec) check() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("kube: "+format, args...)) }
	if s.Kind != Job && s.Kind != JobSet {
		fault("-as %q: choose %s or %s", s.Kind, Job, JobSet)
	}
	if !label().MatchString(s.Name) || len(s.Name) > maxName {
		fault("-name %q: Kubernetes needs lower-case letters, digits and -, beginning with a letter, here at most %d characters", s.Name, maxName)
	}
	if s.Claim != "" && (!label().MatchString(s.Claim) || len(s.Claim) > 63) {
		fault("-claim %q: Kubernetes needs lower-case letters, digits and -, at most 63 characters", s.Claim)
	}
	if s.Image == "" {
		fault("an image with wdlrun is needed: -image registry.example/wdlrun:1")
	}
	if s.Hosts < 1 || s.Hosts > maxPods || s.Ranks%max(s.Hosts, 1) != 0 {
		fault("-hosts %d: pods are equal, so -np must be a multiple of it; -np is %d", s.Hosts, s.Ranks)
	}
	if s.CPUs < 1 {
		fault("-cpus %d: a rank needs at least 1", s.CPUs)
	}
	if !quantity().MatchString(s.Memory) {
		fault("-memory %q: give a number of bytes such as 8Gi", s.Memory)
	}
	if s.Grace < time.Second {
		fault("-grace %s: a checkpoint needs at least 1s", s.Grace)
	}
	if err := s.Online.check(&s); err != nil {
		errs = append(errs, err)
	}
	if len(s.Config) > maxConfig {
		fault("the configuration has %d bytes, and a ConfigMap at most %d", len(s.Config), maxConfig)
	}
	return errors.Join(errs...)
}

// Manifest returns the objects of a training: a Secret with the key, a ConfigMap with the
// configuration, a Service for the names of the pods, and the Job. A JobSet makes its own
// Service. A loop has the workloads of its other parts, too.
func Manifest(s Spec) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	objects := []object{s.secret()}
	if s.Config != nil {
		objects = append(objects, s.configMap())
	}
	if s.Kind == JobSet {
		objects = append(objects, s.jobSet())
	} else {
		objects = append(objects, s.service(), object{of("apiVersion", "batch/v1"), of("kind", "Job"), s.metadata(), of("spec", s.job(s.starts(s.Hosts), s.Name))})
	}
	if s.Online != nil {
		objects = append(objects, s.Online.objects(&s)...)
	}
	var out bytes.Buffer
	for i, o := range objects {
		if i > 0 {
			out.WriteString("---\n")
		}
		b, err := yaml.MarshalWithOptions(o, yaml.IndentSequence(true), yaml.UseLiteralStyleIfMultiline(true))
		if err != nil {
			return nil, fmt.Errorf("kube: %w", err)
		}
		out.Write(b)
	}
	return out.Bytes(), nil
}

func (s Spec) metadata() yaml.MapItem { return s.named(s.Name, "train") }

func (s Spec) secret() object {
	return object{of("apiVersion", "v1"), of("kind", "Secret"), s.metadata(), of("data", object{of("key", base64.StdEncoding.EncodeToString([]byte(s.Key.Hex())))})}
}

func (s Spec) configMap() object {
	return object{of("apiVersion", "v1"), of("kind", "ConfigMap"), s.metadata(), of("data", object{of("train.yaml", string(s.Config))})}
}

// starts returns the number of failures, of a number of pods, after which a training ends. The training of a
// loop is always started again.
func (s Spec) starts(pods int) int {
	if s.Online != nil {
		return forever
	}
	return pods * maxStarts
}

// service returns the Service that gives the pods DNS names, even before they are ready.
func (s Spec) service() object {
	return object{of("apiVersion", "v1"), of("kind", "Service"), s.metadata(), of("spec", object{
		of("clusterIP", "None"),
		of("publishNotReadyAddresses", true),
		of("selector", object{of("batch.kubernetes.io/job-name", s.Name)}),
	})}
}

// jobSet returns a JobSet that restarts all pods after a failure of one.
func (s Spec) jobSet() object {
	return object{of("apiVersion", "jobset.x-k8s.io/v1alpha2"), of("kind", "JobSet"), s.metadata(), of("spec", object{
		of("network", object{of("enableDNSHostnames", true), of("publishNotReadyAddresses", true), of("subdomain", s.Name)}),
		of("failurePolicy", object{of("maxRestarts", s.starts(1))}),
		of("replicatedJobs", []object{{
			of("name", "ranks"),
			of("replicas", 1),
			of("template", object{of("spec", s.job(0, ""))}),
		}}),
	})}
}

// job returns the specification of the Job. JobSet sets the subdomain of its pods itself.
func (s Spec) job(failures int, subdomain string) object {
	pod := object{}
	if subdomain != "" {
		pod = append(pod, of("subdomain", subdomain))
	}
	pod = append(pod, of("restartPolicy", "Never"), of("terminationGracePeriodSeconds", int64(s.Grace/time.Second)), of("containers", s.containers()))
	var volumes []object
	if s.Config != nil {
		volumes = append(volumes, object{of("name", "config"), of("configMap", object{of("name", s.Name)})})
	}
	if s.Claim != "" {
		volumes = append(volumes, object{of("name", "data"), of("persistentVolumeClaim", object{of("claimName", s.Claim)})})
	}
	if len(volumes) > 0 {
		pod = append(pod, of("volumes", volumes))
	}
	return object{
		of("completions", s.Hosts), of("parallelism", s.Hosts), of("completionMode", "Indexed"), of("backoffLimit", failures),
		of("template", object{of("metadata", object{of("labels", s.labels("train"))}), of("spec", pod)}),
	}
}

// first returns the DNS name of the first pod.
func (s Spec) first() string {
	if s.Kind == JobSet {
		return fmt.Sprintf("%s-ranks-0-0.%[1]s", s.Name)
	}
	return fmt.Sprintf("%s-0.%[1]s", s.Name)
}

// containers returns the ranks of a pod.
func (s Spec) containers() (all []object) {
	command := []word{"wdlrun", "-timeout", word(s.Wait.String()), "train"}
	if s.Config != nil {
		command = append(command, "-config", "/etc/wdlrun/train.yaml")
	}
	for _, t := range s.Train {
		command = append(command, word(t))
	}
	var mounts []object
	if s.Config != nil {
		mounts = append(mounts, object{of("name", "config"), of("mountPath", "/etc/wdlrun")})
	}
	if s.Claim != "" {
		mounts = append(mounts, object{of("name", "data"), of("mountPath", DataPath)})
	}
	needs := object{of("cpu", s.CPUs), of("memory", s.Memory)}
	each := s.Ranks / s.Hosts
	for r := range each {
		c := object{
			of("name", fmt.Sprint("rank-", r)), of("image", word(s.Image)), of("command", command),
			of("env", []object{
				variable("WDLRUN_SIZE", strconv.Itoa(s.Ranks)), variable("WDLRUN_LOCAL_RANK", strconv.Itoa(r)), variable("WDLRUN_LOCAL_SIZE", strconv.Itoa(each)),
				variable("WDLRUN_COORDINATOR", fmt.Sprintf("%s:%d", s.first(), port)),
				{of("name", "WDLRUN_KEY"), of("valueFrom", object{of("secretKeyRef", object{of("name", s.Name), of("key", "key")})})},
			}),
			of("resources", object{of("requests", needs), of("limits", needs)}),
		}
		if s.Claim != "" {
			c = append(c, of("workingDir", DataPath))
		}
		if len(mounts) > 0 {
			c = append(c, of("volumeMounts", mounts))
		}
		all = append(all, c)
	}
	return all
}

// variable returns an environment variable.
func variable(name, value string) object { return object{of("name", name), of("value", word(value))} }
