package kube

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/rank"
)

// specs returns the specs of the files in testdata, which the module schema decodes.
func specs() map[string]Spec {
	plain := Spec{Kind: Job, Name: "ctr", Image: "registry.example/wdlrun:1", Ranks: 4, Hosts: 2, CPUs: 1, Memory: "8Gi", Grace: 2 * time.Minute, Wait: 5 * time.Minute, Key: rank.Key{1}, Train: []string{"-out", "/data/runs", "-resume", "auto"}}
	full := plain
	full.Kind, full.Ranks, full.Claim = JobSet, 2, "clicks"
	full.Config = []byte("data:\n  train: [\"/data/day_*.tsv\"]\n# 'quotes' \"too\"\n")
	full.Train = append(full.Train, "-set", "train.epochs=3")
	odd := plain // words that YAML parses as other types
	odd.Name, odd.Claim, odd.Train, odd.Config = "on", "yes", []string{"-out", "null", "0x1f", "1e3", "1_000", "12:30", "2026-11-23", "~", "- a", "a: b", "", "it's \"two\"\\"}, []byte("on")
	loop := plain
	loop.Claim, loop.Config = "clicks", full.Config
	loop.Online = &Online{Join: []string{"-follow", "-impressions=shown", "-out=samples", "-metrics=0.0.0.0:9100"}, Serve: []string{"-wait", "-model=ctr=models/ctr", "-admin=0.0.0.0:8502"}, Servers: 3, MetricsPort: 9100, AdminPort: 8502}
	loopSet := loop
	loopSet.Kind, loopSet.Online = JobSet, &Online{Join: loop.Online.Join, Serve: append(loop.Online.Serve, "-ssl_config_file=tls"), Servers: 1, TLS: true}
	return map[string]Spec{"job.yaml": plain, "jobset.yaml": full, "odd.yaml": odd, "online.yaml": loop, "online_jobset.yaml": loopSet}
}

func TestManifest(t *testing.T) {
	for name, s := range specs() {
		got, err := Manifest(s)
		fatal.If(t, err)
		golden.Check(t, name, string(got))
	}
}

func TestRejected(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		`-as "pod": choose job or jobset`:                        func(s *Spec) { s.Kind = "pod" },
		`-name "Ctr": Kubernetes needs lower-case`:               func(s *Spec) { s.Name = "Ctr" },
		`-name "-a": Kubernetes`:                                 func(s *Spec) { s.Name = "-a" },
		`here at most 40 characters`:                             func(s *Spec) { s.Name = strings.Repeat("a", 41) },
		`-claim "a_b": Kubernetes`:                               func(s *Spec) { s.Claim = "a_b" },
		"-image registry.example":                                func(s *Spec) { s.Image = "" },
		"-hosts 3: pods are equal, so -np must be a multiple of": func(s *Spec) { s.Hosts = 3 },
		"-hosts 0: ":                      func(s *Spec) { s.Hosts = 0 },
		"-cpus 0: ":                       func(s *Spec) { s.CPUs = 0 },
		`-memory "lots": give`:            func(s *Spec) { s.Memory = "lots" },
		"-grace 0s: a checkpoint needs":   func(s *Spec) { s.Grace = 0 },
		"many pods can mount with -claim": func(s *Spec) { s.Online = &Online{Servers: 1} },
		"-servers 0: at least 1 pod":      func(s *Spec) { s.Online, s.Claim = &Online{}, "clicks" },
		"and a ConfigMap at most 1048576": func(s *Spec) { s.Config = make([]byte, maxConfig+1) },
	} {
		s := specs()["job.yaml"]
		change(&s)
		if b, err := Manifest(s); err == nil || b != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestSchemaReadsTheseFiles: the module schema decodes every file of testdata.
func TestSchemaReadsTheseFiles(t *testing.T) {
	found, err := os.ReadDir("testdata")
	if err != nil || len(found) != len(specs()) {
		t.Errorf("%d files in testdata, want %d (%v)", len(found), len(specs()), err)
	}
}
