// Package schema decodes the manifests of package kube with the types of Kubernetes and
// JobSet. It is a separate module, so that they are not dependencies of wdlrun.
package schema

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// decoder rejects unknown and repeated fields.
func decoder(t *testing.T) runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, jobset.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

func TestManifests(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	kinds := map[string]int{}
	var serving corev1.PodTemplateSpec // of the last Deployment
	odd := "null 0x1f 1e3 1_000 12:30 2026-11-23 ~ - a a: b  it's \"two\"\\"
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range bytes.Split(b, []byte("\n---\n")) {
			o, kind, err := decoder(t).Decode(one, nil, nil)
			if err != nil {
				t.Errorf("%s: %v\n%s", file, err, one)
				continue
			}
			kinds[kind.Kind]++
			switch o := o.(type) {
			case *batchv1.Job:
				checkJob(t, o.Spec, o.Name+"-0."+o.Spec.Template.Spec.Subdomain)
				command := strings.Join(o.Spec.Template.Spec.Containers[0].Command, " ")
				if strings.Contains(file, "odd") && !strings.HasSuffix(command, " -out "+odd) {
					t.Errorf("%q, want %q at its end", command, odd)
				}
			case *jobset.JobSet:
				checkJob(t, o.Spec.ReplicatedJobs[0].Template.Spec, o.Name+"-"+o.Spec.ReplicatedJobs[0].Name+"-0-0."+o.Spec.Network.Subdomain)
			case *appsv1.StatefulSet:
				checkPart(t, o.Spec.Selector, o.Spec.Template, *o.Spec.Replicas == 1)
			case *appsv1.Deployment:
				checkPart(t, o.Spec.Selector, o.Spec.Template, o.Spec.Template.Spec.Containers[0].ReadinessProbe != nil)
				serving = o.Spec.Template
			case *corev1.Service:
				if o.Spec.ClusterIP != corev1.ClusterIPNone {
					checkService(t, o.Spec, serving)
				}
			}
		}
	}
	for _, k := range []string{"Job", "JobSet", "Service", "Secret", "ConfigMap", "StatefulSet", "Deployment"} {
		if kinds[k] == 0 {
			t.Errorf("no %s", k)
		}
	}
}

// checkJob checks that related fields agree.
func checkJob(t *testing.T, job batchv1.JobSpec, first string) {
	pod := job.Template.Spec
	if *job.Completions != *job.Parallelism || *job.CompletionMode != batchv1.IndexedCompletion || pod.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", job)
	}
	for _, c := range pod.Containers {
		env := map[string]corev1.EnvVar{}
		for _, v := range c.Env {
			env[v.Name] = v
		}
		if got := env["WDLRUN_COORDINATOR"].Value; got != first+":7070" {
			t.Errorf("coordinator at %s, the first pod is %s", got, first)
		}
		if env["WDLRUN_KEY"].ValueFrom.SecretKeyRef.Key != "key" || c.Resources.Requests.Memory().IsZero() || len(validation.IsDNS1123Label(c.Name)) > 0 {
			t.Errorf("%+v", c)
		}
	}
}

// checkPart checks a part of a loop: its selector finds its pods, which mount the volume that they name.
func checkPart(t *testing.T, selector *metav1.LabelSelector, pods corev1.PodTemplateSpec, own bool) {
	s, err := metav1.LabelSelectorAsSelector(selector)
	c := pods.Spec.Containers[0]
	if err != nil || s.Empty() || !s.Matches(labels.Set(pods.Labels)) || !own {
		t.Errorf("%v: selector %v of pods with %v", err, selector, pods.Labels)
	}
	if pods.Spec.Volumes[0].PersistentVolumeClaim.ClaimName == "" || pods.Spec.Volumes[0].Name != c.VolumeMounts[0].Name || c.WorkingDir != c.VolumeMounts[0].MountPath || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%+v", c)
	}
}

// checkService checks that a Service finds pods that listen on its ports.
func checkService(t *testing.T, s corev1.ServiceSpec, pods corev1.PodTemplateSpec) {
	if len(s.Selector) == 0 || !labels.SelectorFromSet(s.Selector).Matches(labels.Set(pods.Labels)) || len(s.Ports) != 2 {
		t.Errorf("%+v of pods with %v", s, pods.Labels)
	}
	for i, p := range s.Ports {
		if c := pods.Spec.Containers[0].Ports[i]; c.ContainerPort != p.Port || c.Name != p.Name {
			t.Errorf("port %+v, the container has %+v", p, c)
		}
	}
}

// TestStrict: a field with the wrong case is rejected.
func TestStrict(t *testing.T) {
	if _, _, err := decoder(t).Decode([]byte("apiVersion: v1\nkind: Pod\nspec: {subDomain: a}\n"), nil, nil); err == nil {
		t.Error("subDomain is accepted")
	}
}
