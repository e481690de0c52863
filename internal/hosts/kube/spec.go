package kube

import (
	"encoding/json"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/wdlrun/wdlrun/rank"
)

// Spec is the input of a manifest.
type Spec struct {
	Kind   string // Job or JobSet
	Name   string // of all objects
	Image  string // with wdlrun in its PATH
	Ranks  int
	Hosts  int
	CPUs   int           // per rank, and of each pod of the other parts
	Memory string        // of the same, such as 8Gi
	Claim  string        // PersistentVolumeClaim mounted at /data in all pods, their working directory; "" for none
	Grace  time.Duration // for the last checkpoint of a pod that is terminated
	Wait   time.Duration // for the other pods
	Key    rank.Key
	Config []byte   // of the training, nil for the built-in one
	Train  []string // flags of train
	Online *Online  // nil: the training alone
}

// Online is the parts of an online loop other than the training. The join is a StatefulSet of one pod, so that no two
// pods have its state. The servers are a Deployment with a Service.
type Online struct {
	Join    []string // flags of join
	Serve   []string // flags of serve, without addresses
	Servers int      // pods that serve
	TLS     bool     // of the servers

	MetricsPort, AdminPort int // of the join, and of each server; 0: none
}

// word is a quoted string, because YAML parses some words as numbers or times.
type word string

// MarshalYAML implements yaml.BytesMarshaler.
func (w word) MarshalYAML() ([]byte, error) { return json.Marshal(string(w)) }

// object is a YAML mapping that keeps the order of its keys.
type object = yaml.MapSlice

func of(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }

func words(all []string) (quoted []word) {
	for _, x := range all {
		quoted = append(quoted, word(x))
	}
	return quoted
}

// named returns the metadata of an object of a part.
func (s Spec) named(name, part string) yaml.MapItem {
	return of("metadata", object{of("name", name), of("labels", s.labels(part))})
}

// labels are on all objects of a part.
func (s Spec) labels(part string) object {
	return object{of("app.kubernetes.io/instance", s.Name), of("app.kubernetes.io/component", part)}
}
