// Package schema decodes the manifests of package kube with the types of Kubernetes and
// JobSet. It is a separate module, so that they are not dependencies of wdlrun.
package schema

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// decoder rejects unknown and repeated fields.
func decoder(t *testing.T) runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, jobset.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

func TestManifests(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	kinds := map[string]int{}
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
			}
		}
	}
	for _, k := range []string{"Job", "JobSet", "Service", "Secret", "ConfigMap"} {
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

// TestStrict: a field with the wrong case is rejected.
func TestStrict(t *testing.T) {
	if _, _, err := decoder(t).Decode([]byte("apiVersion: v1\nkind: Pod\nspec: {subDomain: a}\n"), nil, nil); err == nil {
		t.Error("subDomain is accepted")
	}
}
